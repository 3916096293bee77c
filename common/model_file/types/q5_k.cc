// Q5_K: see k_block.h; q in 0..31.
#include "common/model_file/types/k_block.h"

namespace kvrelay::model_file {

using Block = KBlock<5>;
const TypeEntry kQ5_KEntry = {
    TensorType::kQ5_K, "Q5_K", {.elements = Block::kElements, .bytes = Block::kBytes}, Block::Dequantize};

}  // namespace kvrelay::model_file
