#include "common/kv/layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace kvrelay::kv {

std::string_view KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF16:
      return "f16";
    case KvType::kF32:
      return "f32";
    case KvType::kBf16:
      return "bf16";
    case KvType::kInt8:
      return "int8";
  }
  KV_CHECK(false, "a KV type without a name");
}

absl::StatusOr<KvType> ParseKvType(std::string_view name) {
  for (KvType type : kAllKvTypes)
    if (name == KvTypeName(type)) return type;
  // The name may come from a peer: quote only so much of it.
  return absl::InvalidArgumentError(absl::StrCat("unknown KV type \"",
                                                 absl::string_view(name.data(), std::min<size_t>(name.size(), 16)),
                                                 "\"; known are f16, f32, bf16 and int8"));
}

absl::Status CheckKvLayout(const KvLayout& layout) {
  if (layout.type == KvType::kInt8 && layout.head_dim % kernels::kKvScaleDims != 0)
    return absl::InvalidArgumentError(absl::StrCat("KV type int8 has a scale for each ", kernels::kKvScaleDims,
                                                   " dimensions of a head; this model's heads have ", layout.head_dim,
                                                   ", no multiple of that: use another KV type"));
  return absl::OkStatus();
}

}  // namespace kvrelay::kv
