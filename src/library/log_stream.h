// A C stream that passes its lines to a function of the program.
#pragma once

#include <trireme/trainer.h>

#include <cstdio>
#include <memory>
#include <string>

namespace trireme {

class LogStream {
 public:
  // Without a function, lines go to standard output.
  explicit LogStream(v1::Logger log);
  std::FILE* file() const { return file_ ? file_.get() : stdout; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void take(const char* text, std::size_t size);
  static ssize_t write(void* self, const char* text, std::size_t size);

  v1::Logger log_;
  std::string line_;  // incomplete last line
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace trireme
