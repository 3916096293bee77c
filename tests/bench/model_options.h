// The options that every program here has: which model, and how it is computed.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"
#include "common/model/model.h"

namespace kvrelay::bench {

struct ModelOptions {
  std::string model, matmul = "native", isa = "auto", kv_type = "f16";
  int threads = 0;
};

void AddModelOptions(CLI::App& app, ModelOptions& options);

struct LoadedModel {
  std::unique_ptr<model::Model> model;
  double load_s;
  kv::KvType kv_type;
  int threads;  // at least 1
};
absl::StatusOr<LoadedModel> LoadModel(const ModelOptions& options);

}  // namespace kvrelay::bench
