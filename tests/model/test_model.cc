#include "tests/model/test_model.h"

#include <cstdlib>
#include <iostream>

#include "common/model_file/model_file.h"

namespace kvrelay::testing {
namespace {

[[noreturn]] void Die(const std::string& why) {
  std::cerr << why << std::endl;
  std::exit(1);
}

}  // namespace

std::string TestModelPath() {
  const char* path = std::getenv("KVRELAY_MODEL");
  if (path == nullptr)
    Die("KVRELAY_MODEL is not set: run the tests by ./dev test, or set it to the default model's GGUF file");
  return path;
}

std::unique_ptr<model::Model> LoadTestModel(kernels::MatmulBackend backend, kernels::Isa isa, int layers) {
  auto file = model_file::ModelFile::Open(TestModelPath());
  if (!file.ok()) Die(file.status().ToString());
  auto model = model::Model::Load(**file, backend, isa, layers);
  if (!model.ok()) Die(model.status().ToString());
  return *std::move(model);
}

}  // namespace kvrelay::testing
