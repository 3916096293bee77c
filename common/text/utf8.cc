#include "common/text/utf8.h"

#include <cstdint>

namespace kvrelay::text {
namespace {

struct Lead {
  size_t size;        // of the character
  uint8_t low, high;  // bounds of the second byte
};

// Size 0: no character begins with this byte.
Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};  // continuation, or an overlong two-byte form
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};  // no overlong forms
  if (byte == 0xed) return {3, 0x80, 0x9f};  // no surrogates
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};  // no overlong forms
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};  // up to U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Part NextUtf8Part(std::string_view bytes) {
  const Lead lead = LeadOf(static_cast<uint8_t>(bytes[0]));
  if (lead.size == 0) return {Utf8Part::kInvalid, 1};
  for (size_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size()) return {Utf8Part::kIncomplete, i};
    const uint8_t byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) return {Utf8Part::kInvalid, i};
  }
  return {Utf8Part::kCharacter, lead.size};
}

size_t AppendValidUtf8(std::string_view bytes, std::string& text) {
  size_t done = 0;
  while (done < bytes.size()) {
    const Utf8Part part = NextUtf8Part(bytes.substr(done));
    if (part.kind == Utf8Part::kIncomplete) break;
    text.append(part.kind == Utf8Part::kCharacter ? bytes.substr(done, part.size) : kReplacementCharacter);
    done += part.size;
  }
  return done;
}

}  // namespace kvrelay::text
