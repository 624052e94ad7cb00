// Per-thread buffer of the attention kernels.
#include "backend/cpu/kernels/attention_scratch.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Uses huge pages if available: a tile's operands and sums span more small pages than the
// processor's TLB for stores covers.
struct ThreadBuffer {
  void* bytes = aligned_alloc(huge_page, scratch_bytes);
  ThreadBuffer() {
    TRIREME_CHECK(bytes != nullptr);
    madvise(bytes, scratch_bytes, MADV_HUGEPAGE);
  }
  ~ThreadBuffer() { free(bytes); }
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
};

}  // namespace

void* attention_scratch() {
  static thread_local const ThreadBuffer buffer;
  return buffer.bytes;
}

}  // namespace trireme::cpu::TRIREME_ISA
