// What a fuzz target's blocks of code call, in place of libFuzzer's own function, which only says
// that the calls of g++ are no longer supported: counts them where libFuzzer looks for counters.
#include <cstdint>

extern "C" void __sanitizer_cov_8bit_counters_init(std::uint8_t* begin, std::uint8_t* end);

namespace {

std::uint8_t counters[1 << 16];

[[maybe_unused]] const bool known_to_libfuzzer = [] {
  __sanitizer_cov_8bit_counters_init(counters, counters + sizeof counters);
  return true;
}();

}  // namespace

// The linker sends calls of __sanitizer_cov_trace_pc here (--wrap). Two blocks that share a counter
// are taken for one: with fewer blocks than counters, few do.
extern "C" void __wrap___sanitizer_cov_trace_pc() {
  const auto block = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++counters[(block * 0x9e3779b97f4a7c15u) >> 48];
}
