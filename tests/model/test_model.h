// Loads the default model for tests.
#pragma once

#include <memory>
#include <string>

#include "common/kernels/matmul.h"
#include "common/model/model.h"

namespace kvrelay::testing {

// Path of the default model: the environment's KVRELAY_MODEL. Ends the process with a clear message if it is not set:
// tests are never skipped for want of the model.
std::string TestModelPath();

// The first `layers` layers of it (0: all). Ends the process if it cannot be loaded.
std::unique_ptr<model::Model> LoadTestModel(kernels::MatmulBackend backend, kernels::Isa isa, int layers = 0);

}  // namespace kvrelay::testing
