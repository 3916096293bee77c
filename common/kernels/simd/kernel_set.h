// The set of kernels of one instruction set, from the parts that were compiled for it.
#pragma once

#include "common/kernels/simd/attention.h"
#include "common/kernels/simd/fma_tile.h"
#include "common/kernels/simd/quant_matmul.h"
#include "common/kernels/simd/rows.h"

namespace kvrelay::kernels::KVRELAY_ISA {
namespace {

constexpr Kernels MakeKernels(Isa isa) {
  return Kernels{
      .isa = isa,
      .quantize_rows = QuantizeRows,
      .rms_norm = RmsNorm,
      .swiglu = SwiGlu,
      .exp_scaled = ExpScaled,
      .rope = Rope,
      .store_kv = StoreKv,
      .attention = Attention,
      .matmul_q4_0 = QuantMatmul<FormatMiddle<4>>,
      .matmul_q4_1 = QuantMatmul<FormatMinimum<4>>,
      .matmul_q5_0 = QuantMatmul<FormatMiddle<5>>,
      .matmul_q5_1 = QuantMatmul<FormatMinimum<5>>,
      .matmul_q8_0 = QuantMatmul<FormatQ8_0>,
      .matmul_q4_k = QuantMatmul<FormatK<4>>,
      .matmul_q5_k = QuantMatmul<FormatK<5>>,
      .matmul_q6_k = QuantMatmul<FormatQ6_K>,
      .matmul_f32 = FloatMatmul<ElementF32>,
      .matmul_f16 = FloatMatmul<ElementF16>,
      .matmul_bf16 = FloatMatmul<ElementBf16>,
  };
}

}  // namespace
}  // namespace kvrelay::kernels::KVRELAY_ISA
