// Speed of saving and loading a checkpoint of 1.6 GB (GPT-2 124M with its optimizer state), next to
// the speed of the folder's disk and of memory: bench_checkpoint FOLDER. It does not use Google
// Benchmark, because each save finds the disk and the memory as the previous one left them, so the
// order matters.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "base/hash.h"
#include "checkpoint/async_saver.h"
#include "checkpoint/reader.h"

namespace {

using namespace trireme;

constexpr int tensors = 32;
constexpr std::int64_t elements = std::int64_t{12} << 20;
constexpr double gigabytes = 4.0 * elements * tensors / 1e9;

// Median of five, in GB/s.
template <class Body>
void time(const char* what, Body&& body) {
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(seconds);
  std::printf("%-34s %6.2f GB/s\n", what, gigabytes / seconds[2]);
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path folder = argc > 1 ? argv[1] : ".";
  std::vector<std::vector<float>> memory(tensors, std::vector<float>(elements));
  std::vector<SourceSlice> sources;
  std::vector<TargetSlice> targets;
  const Shape shape{elements / 1024, 1024};
  for (int i = 0; i < tensors; ++i) {
    std::iota(memory[i].begin(), memory[i].end(), static_cast<float>(i));
    const std::string name = "tensor" + std::to_string(i);
    auto* data = reinterpret_cast<std::byte*>(memory[i].data());
    sources.push_back({name, DType::f32, shape, Region::whole(shape), data});
    targets.push_back({name, DType::f32, shape, Region::whole(shape), data});
  }
  std::vector<float> copy(elements);
  std::uint64_t sum = 0;
  time("copy in memory, one thread", [&] {
    for (const auto& values : memory) std::ranges::copy(values, copy.begin());
  });
  time("hash, one thread", [&] {
    for (const auto& values : memory) sum += hash64(values.data(), elements * sizeof(float));
  });
  time("plain write and fsync", [&] {
    File file(folder / "plain", File::Mode::create);
    for (const auto& values : memory) file.write(values.data(), elements * sizeof(float));
    file.sync();
  });
  fs::remove(folder / "plain");
  const SaveOptions options{folder / "checkpoints", "bench", 1};
  std::int64_t step = 0;
  time("save", [&] { save_checkpoint(options, {.step = ++step}, sources); });
  time("load", [&] { CheckpointReader(options.folder).read(targets); });
  time("verify", [&] { CheckpointReader(options.folder).verify(); });
  AsyncSaver saver(options);
  for (const char* which : {"first", "second"}) {
    const double stall = saver.start({.step = ++step}, sources);
    std::printf("asynchronous save, %-6s stall      %6.3f s of %.3f s\n", which, stall,
                saver.finish()->seconds);
  }
  fs::remove_all(options.folder);
  return sum == 0;
}
