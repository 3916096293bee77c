#include "common/text/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/text/utf8.h"

namespace kvrelay::text {
namespace {

// Bounds the ways to cut a token, which are looked up one by one.
constexpr size_t kMaxPieceBytes = 512;

constexpr char kSpace[] = "\u2581";

// Byte of a token "<0x0A>"; -1 for any other token.
int ByteOf(std::string_view token) {
  int byte = 0;
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  for (const char digit : token.substr(3, 2)) {
    const bool is_letter = digit >= 'A' && digit <= 'F';
    if (!is_letter && (digit < '0' || digit > '9')) return -1;
    byte = byte * 16 + (is_letter ? digit - 'A' + 10 : digit - '0');
  }
  return byte;
}

// A merge with what it is ordered by.
struct Scored {
  double score;
  int left_characters, right_characters;
  Merge merge;
};

// Appends the ways to make token `id` out of two plain tokens, ascending by their ids.
void AppendWays(uint32_t id, const TokenIds& ids, double score, const Vocabulary& vocabulary,
                std::vector<Scored>& ways) {
  const std::string_view token = vocabulary.tokens[id];
  const size_t first = ways.size();
  std::vector<size_t> starts;  // of its characters
  for (size_t at = 0; at < token.size(); at += NextUtf8Part(token.substr(at)).size) starts.push_back(at);
  const int characters = static_cast<int>(starts.size());
  for (int cut = 1; cut < characters; ++cut) {
    const auto left = ids.find(token.substr(0, starts[cut])), right = ids.find(token.substr(starts[cut]));
    if (left == ids.end() || right == ids.end()) continue;
    if (vocabulary.kinds[left->second] != TokenKind::kPlain || vocabulary.kinds[right->second] != TokenKind::kPlain)
      continue;
    ways.push_back({score, cut, characters - cut, {left->second, right->second}});
  }
  std::sort(ways.begin() + first, ways.end(), [](const Scored& a, const Scored& b) {
    return std::tie(a.merge.left, a.merge.right) < std::tie(b.merge.left, b.merge.right);
  });
}

}  // namespace

absl::Status MergesFromScores(const TokenIds& ids, absl::Span<const double> scores, Vocabulary& vocabulary) {
  std::vector<Scored> ways;
  for (uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.kinds[id] != TokenKind::kPlain) continue;
    if (vocabulary.tokens[id].size() > kMaxPieceBytes)
      return absl::InvalidArgumentError(absl::StrCat(
          "tokenizer.ggml.tokens[", id, "] has ", vocabulary.tokens[id].size(), " bytes, more than ", kMaxPieceBytes));
    if (!std::isfinite(scores[id]))
      return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.scores[", id, "] is no finite number"));
    AppendWays(id, ids, scores[id], vocabulary, ways);
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Scored& a, const Scored& b) {
    return std::tie(a.score, a.left_characters, a.right_characters) >
           std::tie(b.score, b.left_characters, b.right_characters);
  });
  for (const Scored& way : ways) vocabulary.merges.push_back(way.merge);
  return absl::OkStatus();
}

absl::Status CheckByteTokens(const TokenIds& ids) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = absl::StrFormat("<0x%02X>", byte);
    if (!ids.contains(token))
      return absl::UnimplementedError(
          absl::StrCat("the vocabulary has no token ", token, "; without byte fallback some text has no ids"));
  }
  return absl::OkStatus();
}

std::string BytesOfPiece(std::string_view token) {
  if (const int byte = ByteOf(token); byte >= 0) return std::string(1, static_cast<char>(byte));
  return absl::StrReplaceAll(std::string(token), {{kSpace, " "}});
}

}  // namespace kvrelay::text
