// Append-only files of records: metrics, event files, the log.
#pragma once

#include <string_view>

#include "base/file.h"

namespace trireme {

// Appends the whole record or, on failure, nothing: no partial record stays in the file.
inline void append_record(File& file, std::string_view record) {
  const std::uint64_t before = file.size();
  try {
    file.write(record.data(), record.size());
  } catch (...) {
    try {
      file.truncate(before);
    } catch (const std::exception&) {  // the error that led here says more
    }
    throw;
  }
}

}  // namespace trireme
