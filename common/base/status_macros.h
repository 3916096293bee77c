// Early return on a bad absl::Status.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define KV_RETURN_IF_ERROR(expression)                                               \
  do {                                                                               \
    if (absl::Status kv_status_ = (expression); !kv_status_.ok()) return kv_status_; \
  } while (false)

#define KV_CONCAT_INNER_(a, b) a##b
#define KV_CONCAT_(a, b) KV_CONCAT_INNER_(a, b)

// KV_ASSIGN_OR_RETURN(auto x, Function()): declares or assigns the value, or returns the error.
#define KV_ASSIGN_OR_RETURN(target, expression) \
  KV_ASSIGN_OR_RETURN_INNER_(KV_CONCAT_(kv_status_or_, __LINE__), target, expression)
#define KV_ASSIGN_OR_RETURN_INNER_(temporary, target, expression) \
  auto temporary = (expression);                                  \
  if (!temporary.ok()) return std::move(temporary).status();      \
  target = *std::move(temporary)
