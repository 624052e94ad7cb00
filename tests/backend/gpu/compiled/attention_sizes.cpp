// Prints the blocks of the attention kernels, for attention_cycles.py: one line for each kernel,
// unit, head_dim and form.
#include <cstdio>

#include "backend/gpu/kernels/attention_forward.h"
#include "backend/gpu/kernels/attention_keys.h"
#include "backend/gpu/kernels/attention_queries.h"

namespace trireme::gpu {
namespace {

constexpr const char* name_of(Unit unit) {
  return unit == Unit::mma ? "mma" : unit == Unit::mfma ? "mfma" : "wmma";
}

template <class Sizes>
void print(const char* kernel, Unit unit, int d, Form form) {
  std::printf("%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", kernel, name_of(unit), d, static_cast<int>(form),
              Sizes::rows, Sizes::columns, Sizes::threads, Sizes::shared_bytes);
}

template <Unit unit, int d, Form form>
void print_kernels() {
  print<ForwardSizes<bf16, d, form, unit>>("forward_kernel", unit, d, form);
  print<KeysSizes<bf16, d, form, unit>>("keys_kernel", unit, d, form);
  print<QueriesSizes<bf16, d, form, unit>>("queries_kernel", unit, d, form);
}

template <Unit unit>
void print_unit() {
  print_kernels<unit, 64, Form::dense>();
  print_kernels<unit, 128, Form::dense>();
}

}  // namespace
}  // namespace trireme::gpu

int main() {
  using trireme::gpu::Unit;
  std::puts("kernel\tunit\thead_dim\tform\trows\tcolumns\tthreads\tshared");
  trireme::gpu::print_unit<Unit::mma>();
  trireme::gpu::print_unit<Unit::mfma>();
  trireme::gpu::print_unit<Unit::wmma>();
}
