// Precompiled for the simulator.
#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <random>

#include "cmake/precompiled/base.h"
#include "kvrelay/v1/generation.pb.h"
#include "kvrelay/worker/v1/decode.pb.h"
#include "kvrelay/worker/v1/kv.pb.h"
#include "kvrelay/worker/v1/prefill.pb.h"
