// Q4_K: see k_block.h; q in 0..15.
#include "common/model_file/types/k_block.h"

namespace kvrelay::model_file {

using Block = KBlock<4>;
const TypeEntry kQ4_KEntry = {
    TensorType::kQ4_K, "Q4_K", {.elements = Block::kElements, .bytes = Block::kBytes}, Block::Dequantize};

}  // namespace kvrelay::model_file
