// The grammar of a GGUF file's head (all numbers little-endian):
//
//   file     = "GGUF" version:u32 tensors:u64 keys:u64 pair{keys} tensor{tensors} padding data
//   pair     = key:string type:u32 value          a key appears once; at most 65535 bytes
//   value    = number | bool:u8 (0 or 1) | string | array
//   string   = length:u64 byte{length}
//   array    = type:u32 count:u64 value{count}    values without their type; arrays do not nest
//   tensor   = name:string dims:u32 dim:u64{dims} type:u32 offset:u64
//              1 to 4 dims, the first contiguous; offset from the start of data, a multiple of the alignment
//   data     starts at the next multiple of general.alignment (default 32, a power of two)
//
// Versions 2 and 3 are the same on little-endian machines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model_file/metadata.h"

namespace kvrelay::model_file {

// Bytes of one number or bool; 0 for strings, arrays and unknown types.
size_t NumberBytes(ValueType type);

// Turns offsets, which count from `data_start`, into places in the file; every tensor must lie inside it and on its own
// bytes. INVALID_ARGUMENT naming the tensor.
absl::Status PlaceTensors(uint64_t data_start, uint64_t file_bytes, absl::Span<TensorInfo> tensors);

// Sets tensor.bytes from type and dims. INVALID_ARGUMENT if rows are no whole blocks or the product overflows.
absl::Status ComputeTensorBytes(TensorInfo& tensor);

// Reads and checks the head of the file. INVALID_ARGUMENT for an unsound file, UNIMPLEMENTED for another version or an
// element type that we do not compute with, DATA_LOSS if reading fails.
absl::StatusOr<ModelHead> ParseGguf(int fd, uint64_t file_bytes);

}  // namespace kvrelay::model_file
