#include "cli/text.h"

#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kvrelay::cli {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Blocks whose characters fill two columns (Unicode East Asian Width W and F, and the emoji blocks), by whole blocks.
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xAC00, 0xD7A3},
                           {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
                           {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
// Combining marks, zero-width characters and variation selectors.
constexpr Range kZeroWidth[] = {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};

template <size_t n>
bool Contains(const Range (&ranges)[n], char32_t c) {
  for (const Range& range : ranges) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

// Decodes one code point of `text` at `*offset` and moves past it; empty, with `*offset` unmoved, if it is malformed.
std::optional<char32_t> NextCodePoint(std::string_view text, size_t* offset) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(*offset);
  if (lead < 0x80) {
    ++*offset;
    return lead;
  }
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || length > text.size() - *offset) return std::nullopt;
  char32_t c = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    const unsigned char next = byte(*offset + i);
    if ((next & 0xC0) != 0x80) return std::nullopt;
    c = (c << 6) | (next & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < kSmallest[length] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return std::nullopt;
  *offset += length;
  return c;
}

// Puts a comma before every third digit from the right.
std::string Grouped(const std::string& digits) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

bool IsControl(char32_t c) { return c < 0x20 || (c >= 0x7F && c <= 0x9F); }

}  // namespace

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    if (!NextCodePoint(text, &offset)) return offset;
  }
  return std::nullopt;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  size_t offset = 0;
  while (offset < text.size()) {
    const std::optional<char32_t> c = NextCodePoint(text, &offset);
    if (!c) {
      ++offset;
      ++width;
    } else if (!Contains(kZeroWidth, *c)) {
      width += Contains(kWide, *c) ? 2 : 1;
    }
  }
  return width;
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  size_t offset = 0;
  while (offset < text.size()) {
    const size_t start = offset;
    const std::optional<char32_t> c = NextCodePoint(text, &offset);
    if (!c) {
      absl::StrAppendFormat(&quoted, "\\x%02x", static_cast<unsigned char>(text[offset++]));
    } else if (*c == '\n') {
      quoted += "\\n";
    } else if (*c == '\t') {
      quoted += "\\t";
    } else if (*c == '\r') {
      quoted += "\\r";
    } else if (IsControl(*c)) {
      absl::StrAppendFormat(&quoted, "\\x%02x", static_cast<unsigned>(*c));
    } else {
      if (*c == '"' || *c == '\\') quoted += '\\';
      quoted += text.substr(start, offset - start);
    }
  }
  return quoted + '"';
}

std::string SafeForTerminal(std::string_view text) {
  std::string safe;
  size_t offset = 0;
  while (offset < text.size()) {
    const size_t start = offset;
    const std::optional<char32_t> c = NextCodePoint(text, &offset);
    if (!c) {
      ++offset;
    } else if (!IsControl(*c) || *c == '\n' || *c == '\t') {
      safe += text.substr(start, offset - start);
    }
  }
  return safe;
}

double Milliseconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) * 1e3 + duration.nanos() / 1e6;
}

std::string FormatMilliseconds(double milliseconds) {
  const std::string text = absl::StrFormat("%.1f", std::abs(milliseconds));
  const size_t point = text.find('.');
  const char* sign = milliseconds < 0 ? "-" : "";
  return absl::StrCat(sign, Grouped(text.substr(0, point)), text.substr(point), " ms");
}

std::string FormatCount(uint64_t count) { return Grouped(absl::StrCat(count)); }

std::string FormatQuantity(double value, std::string_view unit) {
  static constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  for (; value >= 999.5 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  const int digits = prefix == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f %s%s", digits, value, kPrefixes[prefix], unit);
}

std::string FormatRange(uint64_t first, uint64_t end) {
  if (first >= end) return "none";
  if (end - first == 1) return absl::StrCat(first);
  return absl::StrCat(first, "..", end - 1);
}

}  // namespace kvrelay::cli
