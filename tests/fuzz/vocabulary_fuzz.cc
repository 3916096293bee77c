// A vocabulary that a model file might have, line by line, and text for it. It is refused, or it is a tokenizer that
// keeps its promises. Lines: "small" (begin with the tiny model's vocabulary), "pre NAME", "token TYPE TEXT",
// "merge LEFT RIGHT", "id KEY NUMBER", "bos 0|1", "text TEXT" (to be encoded; may be repeated).
#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/text/stream_decoder.h"
#include "common/text/tokenizer.h"
#include "tests/fuzz/input.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/memory_file.h"
#include "tests/testing/tiny_model.h"

namespace kvrelay::fuzz {
namespace {

using testing::GgufWriter;

struct Lines {
  std::vector<std::string> tokens, merges, texts;
  std::vector<int32_t> types;
  GgufWriter writer;
};

void AddSmall(Lines& lines) {
  const testing::TinyVocabulary& tiny = testing::GetTinyVocabulary();
  lines.tokens = tiny.tokens;
  lines.merges = tiny.merges;
  lines.types.assign(tiny.tokens.size(), 1);
  for (int id = 0; id < testing::kTinyFirstByte; ++id) lines.types[id] = 3;
}

int64_t NumberOf(std::string_view text) { return std::strtoll(std::string(text).c_str(), nullptr, 10); }

void AddLine(Lines& lines, std::string_view line) {
  const std::string_view kind = TakeUntil(" ", line);
  if (kind == "small") {
    AddSmall(lines);
  } else if (kind == "pre") {
    lines.writer.AddString("tokenizer.ggml.pre", std::string(line));
  } else if (kind == "token") {
    lines.types.push_back(static_cast<int32_t>(NumberOf(TakeUntil(" ", line))));
    lines.tokens.emplace_back(line);
  } else if (kind == "merge") {
    lines.merges.emplace_back(line);
  } else if (kind == "id") {
    const std::string key(TakeUntil(" ", line));
    lines.writer.AddInt64("tokenizer.ggml." + key + "_token_id", NumberOf(line));
  } else if (kind == "bos") {
    lines.writer.AddBool("tokenizer.ggml.add_bos_token", line == "1");
  } else if (kind == "text") {
    lines.texts.emplace_back(line);
  }
}

Lines Parse(std::string_view text) {
  Lines lines;
  lines.writer.AddString("tokenizer.ggml.model", "gpt2");
  while (!text.empty()) AddLine(lines, TakeUntil("\n", text));
  lines.writer.AddStrings("tokenizer.ggml.tokens", lines.tokens);
  lines.writer.AddArray("tokenizer.ggml.token_type", model_file::ValueType::kInt32, lines.types);
  lines.writer.AddStrings("tokenizer.ggml.merges", lines.merges);
  return lines;
}

// What a client gets token by token is what it would get at once.
void CheckStream(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  text::StreamDecoder decoder;
  std::string streamed;
  for (const int32_t id : ids) streamed += decoder.Add(tokenizer.TokenBytes(id, false)).text;
  KV_CHECK(streamed + decoder.Flush() == tokenizer.Decode(ids, false), "a stream and its whole have one text");
}

// With a stop string: the text before its first occurrence, whatever the tokens are.
void CheckStop(const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids, const std::string& stop) {
  text::StreamDecoder decoder({stop});
  std::string streamed;
  bool stopped = false;
  for (size_t i = 0; i < ids.size() && !stopped; ++i) {
    const text::StreamDecoder::Piece piece = decoder.Add(tokenizer.TokenBytes(ids[i], false));
    streamed += piece.text;
    stopped = piece.stopped;
  }
  if (!stopped) streamed += decoder.Flush();
  const std::string whole = tokenizer.Decode(ids, false);
  const size_t found = whole.find(stop);
  // A stop string may complete only with the replacement of an unfinished end, which is no token's text.
  if (stopped) KV_CHECK(found != std::string::npos && streamed == whole.substr(0, found), "it ends at the stop string");
  if (!stopped) KV_CHECK(streamed == whole, "without the stop string the text is whole");
}

void CheckText(const text::Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.EncodeText(text);
  KV_CHECK(ids.ok() || absl::IsInvalidArgument(ids.status()), "bad text is the client's fault");
  if (!ids.ok()) return;
  for (const int32_t id : *ids) KV_CHECK(id >= 0 && id < tokenizer.vocabulary_size(), "an id is in the vocabulary");
  CheckStream(tokenizer, *ids);
  if (!text.empty()) CheckStop(tokenizer, *ids, text.substr(text.size() / 2));
}

void Run(std::string_view text) {
  const Lines lines = Parse(text);
  const testing::MemoryFile memory(lines.writer.Bytes());
  const auto file = model_file::ModelFile::Open(memory.path());
  if (!file.ok()) return;
  const auto tokenizer = text::Tokenizer::FromFile(**file);
  if (!tokenizer.ok()) {
    KV_CHECK(absl::IsInvalidArgument(tokenizer.status()) || absl::IsUnimplemented(tokenizer.status()),
             "a bad vocabulary is the file's fault");
    return;
  }
  for (const int32_t id : (*tokenizer)->eos_ids())
    KV_CHECK(id >= 0 && id < (*tokenizer)->vocabulary_size(), "an end token is in the vocabulary");
  for (const std::string& each : lines.texts) CheckText(**tokenizer, each);
}

}  // namespace
}  // namespace kvrelay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvrelay::fuzz::Run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
