// The bearer tokens of clients, from a file that is read again when it changes.
//
//   # name  token
//   alice   4f1c...        one client may have several tokens, so that they can be exchanged one after the other
//
// A name has 1 to 64 letters, digits, dots, dashes and underscores; a token 16 to 512 of the characters that RFC 6750
// allows (letters, digits, -._~+/ and = at the end); there are up to 10,000. Kept in memory are SHA-256 digests only,
// never tokens; messages and logs name lines, never what is in them.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/file_watch.h"

namespace kvrelay::router {

// How often the file is looked at.
inline constexpr absl::Duration kTokenReloadInterval = absl::Seconds(1);
// Larger files are refused.
inline constexpr int64_t kTokenFileBytesMax = 1 << 20;

// Immutable; thread-safe.
class TokenTable {
 public:
  // The text of a token file. INVALID_ARGUMENT naming the line, also if there is no token or one twice.
  static absl::StatusOr<TokenTable> Parse(std::string_view text);

  // The name of the client with that token. Takes the same time whichever of the tokens it is, or none.
  std::optional<std::string> Find(std::string_view token) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    std::string name;
  };

  static Digest DigestOf(std::string_view token);

  std::vector<Entry> entries_;
};

// Thread-safe.
class ClientTokens {
 public:
  // FAILED_PRECONDITION naming the file if it cannot be read or is not well formed. Later versions of the file that are
  // bad are logged, and the last good one stays.
  static absl::StatusOr<std::unique_ptr<ClientTokens>> Load(const std::string& path);

  std::optional<std::string> Find(std::string_view token) const;

 private:
  explicit ClientTokens(const std::string& path);
  absl::Status Read();
  void Reload();

  const std::string path_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TokenTable> table_;
  FileWatch watch_;  // last: calls Reload
};

}  // namespace kvrelay::router
