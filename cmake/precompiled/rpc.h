// Precompiled for the folders that speak gRPC.
#include <grpcpp/grpcpp.h>

#include "cmake/precompiled/base.h"
#include "kvrelay/v1/generation.grpc.pb.h"
#include "kvrelay/worker/v1/decode.grpc.pb.h"
#include "kvrelay/worker/v1/prefill.grpc.pb.h"
