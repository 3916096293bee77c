// The text of a value inside a JSON document, its members in the order in which the client wrote them: in a JSON schema
// that is the order in which they will be generated. Json itself keeps none.
//
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

namespace kvrelay::http {

// The value at `path`, keys from the outermost object on; of a key that stands twice, the last. Empty if there is none.
// REQUIRES: `body` was parsed by ParseObject.
std::string JsonTextAt(const std::string& body, const std::vector<std::string>& path);

}  // namespace kvrelay::http
