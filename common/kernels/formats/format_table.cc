#include "common/kernels/formats/format_table.h"

#include "common/base/check.h"

namespace kvrelay::kernels {
namespace {

constexpr const PackedFormat* kFormats[] = {&kF32Format,  &kF16Format,  &kBf16Format, &kQ4_0Format,
                                            &kQ4_1Format, &kQ5_0Format, &kQ5_1Format, &kQ8_0Format,
                                            &kQ4_KFormat, &kQ5_KFormat, &kQ6_KFormat};

}  // namespace

const PackedFormat& FormatOf(model_file::TensorType type) {
  for (const PackedFormat* format : kFormats) {
    if (format->type == type) return *format;
  }
  KV_CHECK(false, "a tensor type without a packed format");
}

}  // namespace kvrelay::kernels
