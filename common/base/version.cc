#include "common/base/version.h"

namespace kvrelay {

const char* Version() { return KVRELAY_VERSION; }

}  // namespace kvrelay
