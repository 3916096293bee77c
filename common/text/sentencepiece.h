// SentencePiece vocabularies of the BPE kind (tokenizer.ggml.model "llama": Llama 2, Mistral): pieces spell a space as
// U+2581, bytes that no piece covers are tokens "<0x00>" to "<0xFF>", and a piece's score says how early it is merged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/text/vocabulary.h"

namespace kvrelay::text {

using TokenIds = absl::flat_hash_map<std::string_view, uint32_t>;

// Fills vocabulary.merges with every way to make a plain token out of two others, best score first, in the order in
// which Hugging Face's converter lists them. REQUIRES: a score for each token. INVALID_ARGUMENT for a plain token that
// is too long or a score that is no number.
absl::Status MergesFromScores(const TokenIds& ids, absl::Span<const double> scores, Vocabulary& vocabulary);

// UNIMPLEMENTED if a byte has no token: then some text would have no ids.
absl::Status CheckByteTokens(const TokenIds& ids);

// The bytes that a plain or user-defined token stands for.
std::string BytesOfPiece(std::string_view token);

}  // namespace kvrelay::text
