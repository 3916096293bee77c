// Words for a worker's status, shared by `status` and `wait`. All are safe to print.
#pragma once

#include <string>

#include "kvrelay/v1/generation.pb.h"

namespace kvrelay::cli {

std::string RoleName(v1::WorkerRole role);
std::string Shown(const std::string& text);  // "-" for an empty one
// "decode 127.0.0.1:7000: why it is not ready".
std::string Problem(const v1::WorkerStatus& worker);

}  // namespace kvrelay::cli
