// A stream by fopencookie, split into lines.
#include "library/log_stream.h"

#include <exception>

#include "base/error.h"

namespace trireme {

LogStream::LogStream(v1::Logger log) : log_(std::move(log)) {
  if (!log_) return;
  cookie_io_functions_t functions{};
  functions.write = write;
  file_.reset(fopencookie(this, "w", functions));
  if (!file_) fail("out of memory for a log");
}

// Called from C code: exceptions must not escape.
ssize_t LogStream::write(void* self, const char* text, std::size_t size) {
  try {
    static_cast<LogStream*>(self)->take(text, size);
  } catch (const std::exception&) {
  }
  return static_cast<ssize_t>(size);
}

void LogStream::take(const char* text, std::size_t size) {
  line_.append(text, size);
  for (std::size_t end; (end = line_.find('\n')) != line_.npos;) {
    const std::string line = line_.substr(0, end);
    line_.erase(0, end + 1);
    log_(line);
  }
}

}  // namespace trireme
