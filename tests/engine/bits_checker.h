// Compares cases with a reference: the same request on the best instruction set, one thread, the whole prompt in one
// step. Keeps models and references. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "tests/engine/same_bits.h"

namespace kvrelay::testing {

class BitsChecker {
 public:
  // The prompt's length; the default model's first `layers` layers (0: all). Cases with a weight type run on a tiny
  // model of that type instead.
  BitsChecker(int prompt_length, int layers) : prompt_length_(prompt_length), layers_(layers) {}

  // Runs the case with `count` selections. Empty if it gave the reference's bits, else what is wrong.
  std::string Problem(const BitsCase& c, int count);
  // The reference of a case.
  absl::StatusOr<BitsResult> Reference(const BitsCase& c, int count);

 private:
  using Weights = std::pair<std::optional<model_file::TensorType>, std::string>;  // and the architecture

  const model::Model& ModelFor(kernels::Isa isa, const Weights& weights);
  absl::StatusOr<BitsResult> Run(const BitsCase& c, int count);

  const int prompt_length_, layers_;
  std::map<std::pair<kernels::Isa, Weights>, std::unique_ptr<model::Model>> models_;
  std::map<std::tuple<kv::KvType, Weights, int>, BitsResult> references_;
};

}  // namespace kvrelay::testing
