// A model folder as Hugging Face transformers writes it: config.json, tokenizer.json, model.safetensors or the shards
// that model.safetensors.index.json names, and, where they are there, tokenizer_config.json, generation_config.json and
// chat_template.jinja. Other files are not read.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model_file/metadata.h"
#include "common/model_file/open_file.h"

namespace kvrelay::model_file::huggingface {

// Opens all files of the folder, ascending by name, and translates what they say into the names of GGUF files.
// NOT_FOUND naming a file that is missing; else as config.h, tokenizer.h and safetensors.h say. An index that names a
// file outside of the folder, more than 1024 shards, or other tensors than the shards hold is INVALID_ARGUMENT.
absl::StatusOr<ModelHead> ReadFolder(const std::string& path, std::vector<OpenFile>& files);

}  // namespace kvrelay::model_file::huggingface
