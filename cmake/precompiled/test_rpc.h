// Precompiled for the tests of the folders that speak gRPC.
#include "cmake/precompiled/rpc.h"
#include "cmake/precompiled/test.h"
