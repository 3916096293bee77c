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
  }
  KV_CHECK(false, "a KV type without a name");
}

absl::StatusOr<KvType> ParseKvType(std::string_view name) {
  for (KvType type : {KvType::kF16, KvType::kF32})
    if (name == KvTypeName(type)) return type;
  // The name may come from a peer: quote only so much of it.
  return absl::InvalidArgumentError(absl::StrCat("unknown KV type \"",
                                                 absl::string_view(name.data(), std::min<size_t>(name.size(), 16)),
                                                 "\"; known are \"f16\" and \"f32\""));
}

}  // namespace kvrelay::kv
