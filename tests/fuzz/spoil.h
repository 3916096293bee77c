// Spoils a message as an input says: a bit, a cut or new bytes in its encoded form.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>

#include "tests/fuzz/input.h"

namespace kvrelay::fuzz {

inline std::string SpoilBytes(Input& input, std::string bytes) {
  const size_t at = bytes.empty() ? 0 : input.Number() % bytes.size();
  switch (input.Below(4)) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << input.Below(8)));
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.insert(at, input.Bytes(input.Byte()));
      break;
    default:
      bytes.append(input.Bytes(input.Byte()));  // a later field wins over an earlier one
      break;
  }
  return bytes;
}

// False if the result is no message at all; a peer's library would refuse it.
template <typename Message>
bool Spoil(Input& input, Message& message) {
  return message.ParseFromString(SpoilBytes(input, message.SerializeAsString()));
}

}  // namespace kvrelay::fuzz
