#include "router/http/logprobs.h"

#include <algorithm>

namespace kvrelay::http {
namespace {

using Json = nlohmann::json;

size_t CodePoints(const std::string& utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// `top` may be less than what the service was asked for: it gives none without the most likely one.
auto Top(const v1::Token& token, int top) { return token.top().begin() + std::min(top, token.top_size()); }

Json Bytes(const std::string& piece) {
  if (piece.find("\xEF\xBF\xBD") != std::string::npos) return nullptr;  // U+FFFD stands for what is no UTF-8
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Json ChatToken(const std::string& piece, float logprob) {
  return {{"token", piece}, {"logprob", logprob}, {"bytes", Bytes(piece)}};
}

}  // namespace

Json CompletionLogprobs(const std::vector<v1::Token>& tokens, int top, size_t& characters) {
  Json lists = {{"tokens", Json::array()},
                {"token_logprobs", Json::array()},
                {"top_logprobs", top > 0 ? Json::array() : Json()},
                {"text_offset", Json::array()}};
  for (const v1::Token& token : tokens) {
    lists["tokens"].push_back(token.piece());
    lists["token_logprobs"].push_back(token.logprob());
    lists["text_offset"].push_back(characters);
    characters += CodePoints(token.piece());
    if (top == 0) continue;
    Json likely = Json::object();
    std::for_each(token.top().begin(), Top(token, top),
                  [&](const v1::TokenLogprob& one) { likely.emplace(one.text(), one.logprob()); });
    likely.emplace(token.piece(), token.logprob());
    lists["top_logprobs"].push_back(std::move(likely));
  }
  return lists;
}

Json ChatLogprobs(const std::vector<v1::Token>& tokens, int top) {
  Json content = Json::array();
  for (const v1::Token& token : tokens) {
    Json entry = ChatToken(token.piece(), token.logprob());
    entry["top_logprobs"] = Json::array();
    std::for_each(token.top().begin(), Top(token, top), [&](const v1::TokenLogprob& one) {
      entry["top_logprobs"].push_back(ChatToken(one.text(), one.logprob()));
    });
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

}  // namespace kvrelay::http
