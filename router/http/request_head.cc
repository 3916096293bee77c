#include "router/http/request_head.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kvrelay::http {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

ApiError Bad(int status, const std::string& message) { return {.status = status, .message = message}; }

// A header's line, in parts.
struct Header {
  absl::string_view name, value;
};

bool IsText(std::string_view line) {
  return std::all_of(line.begin(), line.end(), [](unsigned char c) { return c == '\t' || (c >= 0x20 && c != 0x7F); });
}

std::optional<Header> Split(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos) return std::nullopt;
  const absl::string_view name(line.data(), colon);
  // Neither blanks before the colon nor lines that go on: readers differ about them.
  const auto is_name = [](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("!#$%&'*+-.^_`|~", c);
  };
  if (!std::all_of(name.begin(), name.end(), is_name)) return std::nullopt;
  return Header{name, absl::StripAsciiWhitespace({line.data() + colon + 1, line.size() - colon - 1})};
}

bool Is(const Header& header, absl::string_view name) { return absl::EqualsIgnoreCase(header.name, name); }

// One request's head as far as it was read.
class Reading {
 public:
  std::optional<ApiError> RequestLine(std::string_view line) {
    const std::string_view method = line.substr(0, line.find(' '));
    head_.is_post = method == "POST";
    if (!head_.is_post && method != "GET" && method != "HEAD" && method != "OPTIONS") {
      return Bad(405, "the methods are GET, HEAD, OPTIONS and POST");
    }
    Keep(line);
    return std::nullopt;
  }

  std::optional<ApiError> HeaderLine(std::string_view line) {
    const std::optional<Header> header = Split(line);
    if (!header) return Bad(400, "a header line is not NAME: VALUE");
    if (++headers_ > kHeadersMax) return Bad(431, absl::StrCat("there are more than ", kHeadersMax, " header lines"));
    if (Is(*header, "Content-Length")) return Length(line, *header);
    if (Is(*header, "Transfer-Encoding")) return Bad(411, "Content-Length must be given, without Transfer-Encoding");
    if (Is(*header, "Content-Encoding") && !absl::EqualsIgnoreCase(header->value, "identity")) {
      return Bad(415, "Content-Encoding must be left out: the body is read as it comes");
    }
    if (Is(*header, "Content-Type")) {
      is_json_ = absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(header->value.substr(0, header->value.find(';'))),
                                        "application/json");
    }
    if (Is(*header, "Expect")) {
      head_.wants_continue = absl::EqualsIgnoreCase(header->value, "100-continue");
      return std::nullopt;
    }
    // Answers are sent whole and as they are.
    if (!Is(*header, "Range") && !Is(*header, "Accept-Encoding")) Keep(line);
    return std::nullopt;
  }

  Result<RequestHead> Done() {
    if (!head_.is_post && head_.body_bytes > 0) return Bad(400, "only POST has a body");
    if (head_.is_post && !has_length_) return Bad(411, "Content-Length must be given");
    // Another type is what a page of another site could make a browser send without asking first.
    if (head_.is_post && !is_json_) return Bad(415, "Content-Type must be application/json");
    Keep("");
    return std::move(head_);
  }

 private:
  void Keep(std::string_view line) { head_.bytes.append(line).append(kLineEnd); }

  std::optional<ApiError> Length(std::string_view line, const Header& header) {
    const bool digits = std::all_of(header.value.begin(), header.value.end(), absl::ascii_isdigit);
    uint64_t bytes = 0;
    if (has_length_ || header.value.empty() || !digits) return Bad(400, "Content-Length must be one number");
    if (!absl::SimpleAtoi(header.value, &bytes) || bytes > kBodyBytesMax) {
      return Bad(413, absl::StrCat("the body may have ", kBodyBytesMax, " bytes"));
    }
    has_length_ = true;
    head_.body_bytes = static_cast<size_t>(bytes);
    Keep(line);
    return std::nullopt;
  }

  RequestHead head_;
  size_t headers_ = 0;
  bool has_length_ = false;
  bool is_json_ = false;
};

}  // namespace

Result<RequestHead> CheckHead(std::string_view raw) {
  Reading reading;
  for (bool first = true; !raw.empty(); first = false) {
    const size_t end = raw.find(kLineEnd);
    const std::string_view line = raw.substr(0, end);
    if (end == std::string_view::npos || !IsText(line)) return Bad(400, "the head of the request is not text in lines");
    if (line.size() > kLineBytesMax) return Bad(431, absl::StrCat("a line may have ", kLineBytesMax, " bytes"));
    raw.remove_prefix(end + kLineEnd.size());
    if (line.empty()) break;
    const std::optional<ApiError> error = first ? reading.RequestLine(line) : reading.HeaderLine(line);
    if (error) return *error;
  }
  return reading.Done();
}

}  // namespace kvrelay::http
