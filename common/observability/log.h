// One line per event on standard error, as text or JSON: an event name and key/value pairs that say what happened.
//   2026-11-30T10:00:00.123Z info ready role=decode address=127.0.0.1:4000 threads=2
//   {"time":"2026-11-30T10:00:00.123Z","level":"info","event":"ready","role":"decode","address":"127.0.0.1:4000","threads":2}
// Nothing secret goes in: no prompt, no generated text, no token ids, no handoff id, no cache salt.
//
// Thread-safe after InitLog; before it, lines are text at level info.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace kvrelay::observability {

enum class LogFormat { kText, kJson };
enum class LogLevel { kDebug, kInfo, kWarning, kError };

absl::StatusOr<LogFormat> ParseLogFormat(std::string_view name);  // "text", "json"
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view name);    // "debug", "info", "warning", "error"

// Call once, before other threads log.
void InitLog(LogFormat format, LogLevel level);

class LogValue {
 public:
  LogValue(std::string_view value) : value_(std::string(value)) {}
  LogValue(const std::string& value) : value_(value) {}
  LogValue(const char* value) : value_(std::string(value)) {}
  LogValue(bool value) : value_(value) {}
  template <std::signed_integral T>
  LogValue(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) LogValue(T value) : value_(static_cast<uint64_t>(value)) {}
  LogValue(double value) : value_(value) {}

  using Variant = std::variant<bool, int64_t, uint64_t, double, std::string>;
  const Variant& value() const { return value_; }

 private:
  Variant value_;
};

struct LogField {
  std::string_view key;  // a constant: lower case and underscores
  LogValue value;
};
using LogFields = std::initializer_list<LogField>;

void Log(LogLevel level, std::string_view event, LogFields fields = {});

inline void LogInfo(std::string_view event, LogFields fields = {}) { Log(LogLevel::kInfo, event, fields); }
inline void LogWarning(std::string_view event, LogFields fields = {}) { Log(LogLevel::kWarning, event, fields); }
inline void LogError(std::string_view event, LogFields fields = {}) { Log(LogLevel::kError, event, fields); }

// The line without its end, for a time in nanoseconds since 1970. Values with spaces, quotes, control characters or
// broken UTF-8 are quoted and escaped, so that no value can start a line of its own.
std::string FormatLine(LogFormat format, LogLevel level, int64_t unix_nanos, std::string_view event, LogFields fields);

}  // namespace kvrelay::observability
