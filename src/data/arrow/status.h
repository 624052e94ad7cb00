// Exceptions for errors of the Arrow library and for input that this plug-in rejects; they never
// leave the plug-in.
#pragma once

#include <arrow/api.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace trireme::arrow_plugin {

[[noreturn]] inline void refuse(const std::string& reason) {
  throw std::runtime_error(reason);
}

inline void check(const arrow::Status& status) {
  if (!status.ok()) refuse(status.message());
}

template <class T>
T checked(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

}  // namespace trireme::arrow_plugin
