// A substitute for a vendor's profiler library: writes the ranges that it receives to the file that
// TRIREME_TEST_RANGES names, one per line, and "end" at the end of a range.
#include <cstdio>
#include <cstdlib>

namespace {

int write_line(const char* text) {
  static std::FILE* const file = std::fopen(std::getenv("TRIREME_TEST_RANGES"), "w");
  std::fprintf(file, "%s\n", text);
  std::fflush(file);
  return 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int nvtxRangePushA(const char* name) {
  return write_line(name);
}
__attribute__((visibility("default"))) int nvtxRangePop() {
  return write_line("end");
}

}  // extern "C"
