// Selects the instruction set at start: the best supported one, or TRIREME_ISA.
#include "backend/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "backend/cpu/amx_code.h"
#include "base/error.h"
#include "base/portable_math.h"

namespace trireme::cpu {
namespace {

struct CpuId {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuId cpuid(unsigned leaf, unsigned subleaf) {
  CpuId r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);  // zeros for unknown leaves
  return r;
}

constexpr bool bit(std::uint64_t word, int index) {
  return (word >> index & 1) != 0;
}

// Register state that the system saves on a context switch (XCR0).
std::uint64_t saved_state() {
  if (!bit(cpuid(1, 0).ecx, 27)) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

bool has_avx2() {
  const unsigned ecx = cpuid(1, 0).ecx;
  const bool fma = bit(ecx, 12), f16c = bit(ecx, 29);
  return fma && f16c && bit(cpuid(7, 0).ebx, 5) && (saved_state() & 0x6) == 0x6;
}

bool has_avx512() {
  const unsigned ebx = cpuid(7, 0).ebx;
  const bool f = bit(ebx, 16), dq = bit(ebx, 17), cd = bit(ebx, 28), bw = bit(ebx, 30);
  return has_avx2() && f && dq && cd && bw && bit(ebx, 31) && (saved_state() & 0xe6) == 0xe6;
}

// Linux grants tile registers only on request; the grant holds for all threads of the process
// (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

bool has_amx() {
  const unsigned edx = cpuid(7, 0).edx;
  const bool amx_bf16 = bit(edx, 22), amx_tile = bit(edx, 24), avx512_fp16 = bit(edx, 23);
  // The compiler's code for this set assumes all features of the first processor that had it.
  return has_avx512() && amx_bf16 && amx_tile && avx512_fp16 && has_avx512_bf16() &&
         (saved_state() & 0x60000) == 0x60000 && may_use_tiles();
}

constexpr std::array all_sets{Isa::avx2, Isa::avx512, Isa::amx};

// Returns whether the processor and the system support a set, without emulation.
bool has(Isa set) {
  static const std::array<bool, 3> found{has_avx2(), has_avx512(), has_amx()};
  return found[static_cast<std::size_t>(set)];
}

constexpr std::string_view emulated_name = "amx-emulated";

std::string_view wished() {
  const char* wish = std::getenv("TRIREME_ISA");
  return wish ? wish : "";
}

Isa choose() {
  if (!has(Isa::avx2)) {
    fail(
        "this processor lacks AVX2, FMA or F16C, which Trireme requires (Intel since 2013, AMD "
        "since 2015)");
  }
  const std::string_view wish = wished();
  if (wish.empty()) return best_isa();
  if (wish == emulated_name && emulated_amx()) return Isa::amx;
  for (const Isa set : all_sets) {
    if (wish != name_of(set)) continue;
    if (!has(set)) {
      fail_input(
          "TRIREME_ISA={} requires instructions that this processor or system lacks; the best "
          "supported value is {}",
          wish, name_of(best_isa()));
    }
    return set;
  }
  fail_input("TRIREME_ISA is '{}'; it must be avx2, avx512 or amx", wish);
}

}  // namespace

bool has_avx512_bf16() {
  return has_avx512() && bit(cpuid(7, 1).eax, 5);
}

bool emulates_amx() {
  static const bool emulates = emulated_amx() && (wished() == emulated_name || !has(Isa::amx));
  return emulates;
}

bool supports(Isa set) {
  return has(set) || (set == Isa::amx && emulates_amx());
}

Isa best_isa() {
  Isa best = Isa::avx2;
  for (const Isa set : all_sets) {
    if (has(set)) best = set;
  }
  return best;
}

Isa isa() {
  static const Isa chosen = choose();
  return math::is_portable() ? Isa::avx2 : chosen;
}

Target this_machine(Isa set) {
  const bool dot_products = set == Isa::amx || (set == Isa::avx512 && has_avx512_bf16());
  return {.isa = set, .bf16_dot_products = dot_products};
}

}  // namespace trireme::cpu
