#include "common/observability/log.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace kvrelay::observability {
namespace {

using Json = nlohmann::ordered_json;

std::atomic<LogFormat> log_format = LogFormat::kText;

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// The lines are made here, so the pattern adds nothing.
std::shared_ptr<spdlog::logger> NewLogger() {
  auto logger = spdlog::stderr_logger_mt("kvrelay");
  logger->set_pattern("%v");
  logger->flush_on(spdlog::level::debug);
  return logger;
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = NewLogger();
  return *logger;
}

Json ToJson(const LogValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value.value());
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

bool IsPlain(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isgraph(c) && c != '"' && c != '='; });
}

std::string TextValue(const LogValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value()); text != nullptr && IsPlain(*text)) return *text;
  return Dump(ToJson(value));
}

}  // namespace

absl::StatusOr<LogFormat> ParseLogFormat(std::string_view name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError(fmt::format("log format '{}' is not known; use text or json", name));
}

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view name) {
  for (LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (name == LevelName(level)) return level;
  }
  return absl::InvalidArgumentError(
      fmt::format("log level '{}' is not known; use debug, info, warning or error", name));
}

void InitLog(LogFormat format, LogLevel level) {
  log_format = format;
  Logger().set_level(SpdlogLevel(level));
}

std::string FormatLine(LogFormat format, LogLevel level, int64_t unix_nanos, std::string_view event, LogFields fields) {
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixNanos(unix_nanos), absl::UTCTimeZone());
  if (format == LogFormat::kJson) {
    Json line = {{"time", time}, {"level", LevelName(level)}, {"event", event}};
    for (const LogField& field : fields) line[std::string(field.key)] = ToJson(field.value);
    return Dump(line);
  }
  std::string line = fmt::format("{} {} {}", time, LevelName(level), event);
  for (const LogField& field : fields) line += fmt::format(" {}={}", field.key, TextValue(field.value));
  return line;
}

void Log(LogLevel level, std::string_view event, LogFields fields) {
  spdlog::logger& logger = Logger();
  if (!logger.should_log(SpdlogLevel(level))) return;
  logger.log(SpdlogLevel(level), "{}", FormatLine(log_format, level, Clock::Real()->UnixNanos(), event, fields));
}

}  // namespace kvrelay::observability
