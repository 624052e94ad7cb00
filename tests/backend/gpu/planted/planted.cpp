// A program with one typical mistake of GPU code, named by its first argument, or none ("none").
// The layer of the emulated GPU that guards against the mistake must stop the program; without a
// mistake it prints "right".
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "backend/gpu/emulated/collectives.h"
#include "backend/gpu/emulated/memory.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 64;
constexpr std::int64_t count = 256;
std::string planted;

bool plants(const char* name) {
  return planted == name;
}

struct Row {
  float value[threads];
};

// Each thread takes its left neighbor's value.
GPU_KERNEL(threads) shift_left(float* to, const float* from, bool without_barrier) {
  Row& row = shared_memory<Row>();
  const auto i = static_cast<int>(thread_index());
  row.value[i] = from[block_index().x * threads + i];
  if (!without_barrier) sync_block();
  to[block_index().x * threads + i] = row.value[(i + 1) % threads];
}

GPU_KERNEL(threads) fill_with(float* to, float value) {
  for_each(count, [=](std::int64_t i) { to[i] = value; });
}

GPU_KERNEL(threads) twice(float* to, const float* from) {
  for_each(count, [=](std::int64_t i) { to[i] = 2 * from[i]; });
}

// Every block writes what only one block may write.
GPU_KERNEL(threads) all_blocks_write(float* to) {
  if (thread_index() == 0) to[0] = static_cast<float>(block_index().x);
}

GPU_KERNEL(threads) half_wait_elsewhere(float* to) {
  if (thread_index() < threads / 2) sync_block();
  to[block_index().x * threads + thread_index()] = 1;
  sync_block();
}

GPU_KERNEL(threads) load_unaligned(float* to, const float* from) {
  to[0] = load_pack(from + 1).v[0];
}

// Sums one element too many.
GPU_KERNEL(threads) read_unwritten_shared(float* to) {
  Row& row = shared_memory<Row>();
  if (thread_index() + 1 < threads) row.value[thread_index()] = 1;
  sync_block();
  to[thread_index()] = row.value[thread_index()];
}

struct Memory {
  float* a = static_cast<float*>(runtime::allocate(count * 4));
  float* b = static_cast<float*>(runtime::allocate(count * 4));
  float* mirror = static_cast<float*>(runtime::allocate_pinned(count * 4));
};

constexpr Launch all{.blocks = {4}, .threads = threads};

// Uses two streams: the first computes `a`, the second reads it, and then the first overwrites it.
void hand_over(const Memory& m) {
  GpuQueue first, second;
  trireme::Event made, read;
  launch(first, all, fill_with, m.a, 3.f);
  first.record(made);
  if (!plants("missing wait")) second.wait(made);
  launch(second, all, twice, m.b, m.a);
  second.record(read);
  if (!plants("early overwrite")) first.wait(read);
  launch(first, all, fill_with, m.a, 7.f);
  first.synchronize();
  second.synchronize();
}

// A peer rank that responds immediately with the data sent to it last.
class Echo final : public HostMessages {
 public:
  std::unique_ptr<Transfer> start(std::span<const Message> messages) override {
    struct Done final : Transfer {
      bool done() override { return true; }
    };
    for (const Message& m : messages) {
      if (m.sends) last_.assign(static_cast<char*>(m.data), static_cast<char*>(m.data) + m.bytes);
      if (!m.sends) std::memcpy(m.data, last_.data(), static_cast<std::size_t>(m.bytes));
    }
    return std::make_unique<Done>();
  }

 private:
  std::vector<char> last_;
};

// Runs a collective on a separate queue, between two kernels of the compute queue.
void reduce(const Memory& m) {
  const CollectiveTable& library = emulated::substitute_collectives();
  GpuQueue compute, queue;
  Echo other;
  void* group = nullptr;
  library.join(&group, 2, {}, 0, &other);
  trireme::Event made, reduced;
  launch(compute, all, fill_with, m.a, 3.f);
  compute.record(made);
  if (!plants("no wait before a collective")) queue.wait(made);
  library.all_reduce(m.a, count, DType::f32, false, group, queue);
  queue.record(reduced);
  if (!plants("no wait after a collective")) compute.wait(reduced);
  launch(compute, all, twice, m.b, m.a);
  compute.synchronize();
  queue.synchronize();
  library.destroy(group);
}

void copy_to_host(const Memory& m) {
  GpuQueue queue;
  launch(queue, all, fill_with, m.a, 3.f);
  trireme::Event copied;
  runtime::copy(m.mirror, m.a, count * 4, queue.stream());
  queue.record(copied);
  if (!plants("early read of a mirror")) queue.synchronize();
  const float seen = m.mirror[5];
  queue.synchronize();
  if (seen != 3) std::printf("the mirror does not hold the result yet\n");
}

void copy_to_device(const Memory& m) {
  GpuQueue queue;
  for (int turn = 0; turn < 2; ++turn) {
    for (std::int64_t i = 0; i < count; ++i) m.mirror[i] = static_cast<float>(turn);
    runtime::copy(m.a, m.mirror, count * 4, queue.stream());
    if (!plants("mirror used again")) queue.synchronize();
  }
  queue.synchronize();
}

void run(const Memory& m) {
  GpuQueue queue;
  launch(queue, all, fill_with, m.a, 1.f);
  launch(queue, all, shift_left, m.b, m.a, plants("missing barrier"));
  if (plants("blocks on one address")) launch(queue, all, all_blocks_write, m.b);
  if (plants("barrier not for all")) launch(queue, all, half_wait_elsewhere, m.b);
  if (plants("unaligned load")) launch(queue, all, load_unaligned, m.b, m.a);
  queue.synchronize();
  if (plants("host touches device memory")) m.a[0] = 1;
  if (plants("pageable copy")) {
    float on_stack = 0;
    runtime::copy(m.a, &on_stack, 4, queue.stream());
  }
  hand_over(m);
  reduce(m);
  copy_to_host(m);
  copy_to_device(m);
  if (plants("unwritten shared memory")) {
    launch(queue, all, read_unwritten_shared, m.b);
    runtime::copy(m.mirror, m.b, count * 4, queue.stream());
    queue.synchronize();
    if (m.mirror[threads - 1] != m.mirror[threads - 1]) emulated::stop("a result is NaN");
  }
}

}  // namespace
}  // namespace trireme::gpu

int main(int argc, char** argv) {
  using namespace trireme::gpu;
  planted = argc > 1 ? argv[1] : "none";
  if (argc > 2) emulated::set_stream_order(std::stoull(argv[2]));
  if (argc > 3) emulated::set_thread_order(std::stoull(argv[3]));
  if (planted == "host touches device memory" && !emulated::host_access_is_noticed()) {
    std::printf("no protection keys\n");
    return 0;
  }
  run(Memory{});
  std::printf("right\n");
}
