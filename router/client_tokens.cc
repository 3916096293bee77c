#include "router/client_tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/observability/log.h"
#include "common/rpc/tls_files.h"

namespace kvrelay::router {
namespace {

constexpr size_t kNameBytesMax = 64, kTokenBytesMin = 16, kTokenBytesMax = 512;
constexpr size_t kTokensMax = 10'000;

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

bool IsToken(absl::string_view token) {
  if (token.size() < kTokenBytesMin || token.size() > kTokenBytesMax) return false;
  while (!token.empty() && token.back() == '=') token.remove_suffix(1);
  return !token.empty() && std::all_of(token.begin(), token.end(), [](unsigned char c) {
    return std::isalnum(c) || absl::string_view("-._~+/").find(static_cast<char>(c)) != absl::string_view::npos;
  });
}

absl::Status BadLine(int line, const char* problem) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", problem));
}

}  // namespace

TokenTable::Digest TokenTable::DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

absl::StatusOr<TokenTable> TokenTable::Parse(std::string_view text) {
  TokenTable table;
  std::set<Digest> seen;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 2) return BadLine(number, "not a name and a token");
    if (!IsName(words[0])) return BadLine(number, "a name has 1 to 64 letters, digits, dots, dashes and underscores");
    if (!IsToken(words[1]))
      return BadLine(number, "a token has 16 to 512 letters, digits and -._~+/, with = at its end");
    const Digest digest = DigestOf({words[1].data(), words[1].size()});
    if (!seen.insert(digest).second) return BadLine(number, "this token stands in an earlier line too");
    if (table.entries_.size() == kTokensMax) return BadLine(number, "these are more than 10,000 tokens");
    table.entries_.push_back({digest, std::string(words[0])});
  }
  if (table.entries_.empty()) return absl::InvalidArgumentError("there is no token in it");
  return table;
}

std::optional<std::string> TokenTable::Find(std::string_view token) const {
  if (token.size() > kTokenBytesMax) return std::nullopt;
  const Digest digest = DigestOf(token);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    const bool equal = CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0;
    found = equal ? &entry : found;
  }
  return found == nullptr ? std::nullopt : std::optional(found->name);
}

absl::StatusOr<std::unique_ptr<ClientTokens>> ClientTokens::Load(const std::string& path) {
  std::unique_ptr<ClientTokens> tokens(new ClientTokens(path));
  KV_RETURN_IF_ERROR(tokens->Read());
  return tokens;
}

ClientTokens::ClientTokens(const std::string& path)
    : path_(path), watch_({path}, kTokenReloadInterval, [this] { Reload(); }) {}

absl::Status ClientTokens::Read() {
  KV_ASSIGN_OR_RETURN(const std::string text, rpc::ReadSmallFile("token file", path_, kTokenFileBytesMax));
  absl::StatusOr<TokenTable> table = TokenTable::Parse(text);
  if (!table.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("token file ", path_, ": ", table.status().message()));
  }
  auto next = std::make_shared<const TokenTable>(*std::move(table));
  std::lock_guard lock(mutex_);
  table_ = std::move(next);
  return absl::OkStatus();
}

void ClientTokens::Reload() {
  const absl::Status status = Read();
  if (status.ok()) {
    observability::LogInfo("tokens_reloaded", {{"file", path_}});
  } else {
    observability::LogError("tokens_bad", {{"message", std::string(status.message())}});
  }
}

std::optional<std::string> ClientTokens::Find(std::string_view token) const {
  std::shared_ptr<const TokenTable> table;
  {
    std::lock_guard lock(mutex_);
    table = table_;
  }
  return table->Find(token);
}

}  // namespace kvrelay::router
