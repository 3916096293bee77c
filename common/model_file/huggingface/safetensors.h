// The grammar of a safetensors file (numbers little-endian):
//
//   file    = bytes:u64 header:byte{bytes} data
//   header  = JSON object: name -> {"dtype": text, "shape": [integer...], "data_offsets": [begin, end]}, and perhaps
//             "__metadata__" -> object of texts; offsets count from the start of data
//
// Shapes are outermost first, so a matrix is [outputs, inputs]; TensorInfo has them the other way round.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/model_file/model_file.h"
#include "common/model_file/open_file.h"

namespace kvrelay::model_file::huggingface {

// The tensors of the file, by their own names, as part number `part`. INVALID_ARGUMENT for an unsound file: a header
// longer than the file or 16 MiB, more than 65536 tensors, offsets outside of the data, overlapping, or unlike the
// shape. UNIMPLEMENTED for an element type other than F32, F16 and BF16.
absl::StatusOr<std::vector<TensorInfo>> ReadSafetensors(const OpenFile& file, size_t part);

}  // namespace kvrelay::model_file::huggingface
