// Stacks, and the instructions that switch between them.
#include "backend/gpu/emulated/context.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// trireme_switch_stack(save, load): saves the callee-saved registers on the current stack, stores
// the stack pointer at *save, and restores registers and return address from the stack `load`.
#if defined(__x86_64__)
asm(R"(
    .pushsection .text
    .hidden trireme_switch_stack
    .globl trireme_switch_stack
    .type trireme_switch_stack, @function
trireme_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size trireme_switch_stack, .-trireme_switch_stack
    .popsection
)");
#else
#error "the emulated GPU knows how to switch stacks on x86-64 only"
#endif
extern "C" void trireme_switch_stack(void** save, void* load);

namespace trireme::gpu::emulated {
namespace {

constexpr std::size_t page = 4096;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t stack_bytes = 256 * 1024;
#else
constexpr std::size_t stack_bytes = 64 * 1024;
#endif
constexpr int saved_registers = 6;

}  // namespace

Context::~Context() {
  if (stack_) ::munmap(stack_, page + stack_bytes);
}

void Context::start(void (*body)()) {
  if (!stack_) {
    stack_ = ::mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED || ::mprotect(stack_, page, PROT_NONE) != 0) {
      std::perror("trireme: the emulated GPU cannot allocate a stack");
      std::abort();
    }
  }
  // Places the tops of stacks on different cache lines.
  static unsigned color = 0;
  void** top = reinterpret_cast<void**>(static_cast<char*>(stack_) + page + stack_bytes -
                                        256 * (1 + color++ % 16));
  *--top = nullptr;  // a function begins 8 bytes off a multiple of 16
  *--top = reinterpret_cast<void*>(body);
  for (int i = 0; i < saved_registers; ++i) *--top = nullptr;
  at_ = top;
}

TRIREME_UNCHECKED void switch_context(Context& from, Context& to) {
#if defined(__SANITIZE_ADDRESS__)
  // AddressSanitizer only needs to know which stack is in use.
  void* fake = nullptr;
  const bool own = to.stack_ != nullptr;
  static const void* system_stack = nullptr;
  static std::size_t system_bytes = 0;
  __sanitizer_start_switch_fiber(&fake, own ? static_cast<char*>(to.stack_) + page : system_stack,
                                 own ? stack_bytes : system_bytes);
#endif
  become(to.racer);
  trireme_switch_stack(&from.at_, to.at_);
#if defined(__SANITIZE_ADDRESS__)
  const void* left = nullptr;
  std::size_t left_bytes = 0;
  __sanitizer_finish_switch_fiber(fake, &left, &left_bytes);
  if (left_bytes != stack_bytes) system_stack = left, system_bytes = left_bytes;
#endif
}

}  // namespace trireme::gpu::emulated
