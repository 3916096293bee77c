// config.json of a model folder, as transformers 4 and 5 write it, translated into the metadata of a GGUF file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/model_file/huggingface/json.h"
#include "common/model_file/metadata.h"

namespace kvrelay::model_file::huggingface {

// Fills `metadata` with general.architecture and the architecture's section. Weights of a folder rotate halves, which
// "ARCHITECTURE.rope.rotates_halves" says. UNIMPLEMENTED naming the field for a family, field or value that is not
// known; INVALID_ARGUMENT for a field of the wrong type.
absl::Status TranslateConfig(const Json& config, Metadata& metadata);

// Whether the head is the embedding, even if the folder has a head of its own. Errors as above.
absl::StatusOr<bool> TiesEmbeddings(const Json& config);

// Our name of a tensor: "blk.0.attn_q.weight" for "model.layers.0.self_attn.q_proj.weight". A name that is not known
// stays as it is: the model then refuses it.
std::string TranslateTensorName(const std::string& name);

}  // namespace kvrelay::model_file::huggingface
