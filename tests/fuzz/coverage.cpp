// Coverage callback of fuzz targets, in place of libFuzzer's own function, which only reports that
// g++'s callbacks are no longer supported: counts blocks where libFuzzer looks for counters.
#include <cstdint>

extern "C" void __sanitizer_cov_8bit_counters_init(std::uint8_t* begin, std::uint8_t* end);

namespace {

std::uint8_t counters[1 << 16];

[[maybe_unused]] const bool known_to_libfuzzer = [] {
  __sanitizer_cov_8bit_counters_init(counters, counters + sizeof counters);
  return true;
}();

}  // namespace

// The linker redirects __sanitizer_cov_trace_pc here (--wrap). Two blocks that share a counter
// count as one: with fewer blocks than counters, few do.
extern "C" void __wrap___sanitizer_cov_trace_pc() {
  const auto block = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++counters[(block * 0x9e3779b97f4a7c15u) >> 48];
}
