#pragma once

namespace kvrelay {

// Version of the project, for example "0.1.0".
const char* Version();

}  // namespace kvrelay
