// Fuzz target for .idx files: each is rejected, or all sequences that it announces can be read.
#include <unistd.h>

#include "base/file.h"
#include "base/thread_pool.h"
#include "data/indexed_dataset.h"
#include "fuzz/fuzz.h"

namespace trireme {
namespace {

constexpr std::size_t kBinBytes = 4096;

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

std::string valid_index(char code, std::int64_t width) {
  return std::string("MMIDIDX\0\0", 9) + raw<std::uint64_t>({1}) + code +
         raw<std::uint64_t>({3, 4}) + raw<std::int32_t>({3, 0, 200}) +
         raw<std::int64_t>({0, 3 * width, 3 * width}) + raw<std::int64_t>({0, 1, 1, 3});
}

void write(const std::string& path, const void* bytes, std::size_t size) {
  File file(path, File::Mode::create);
  file.write(bytes, size);
}

// The files of this process, in memory if possible; .bin stays the same.
class Files {
 public:
  Files() {
    ThreadPool::set_global_size(1);
    const fs::path memory = "/dev/shm";
    const fs::path folder = fs::is_directory(memory) ? memory : fs::temp_directory_path();
    prefix_ = (folder / fmt::format("fuzz_index_{}", ::getpid())).string();
    write(prefix_ + ".bin", std::string(kBinBytes, '\3').data(), kBinBytes);
  }
  ~Files() {
    std::error_code ignored;
    for (const char* suffix : {".bin", ".idx"}) fs::remove(prefix_ + suffix, ignored);
  }
  const std::string& prefix() const { return prefix_; }

 private:
  std::string prefix_;
};

void read_everything(const IndexedDataset& data) {
  std::vector<std::int32_t> ids;
  std::int64_t budget = 1 << 20;  // sequences may overlap, so their total size is unbounded
  for (std::int64_t i = 0; i < data.sequences() && budget > 0; ++i) {
    ids.resize(static_cast<std::size_t>(data.length(i)));
    budget -= data.length(i);
    data.read(i, 0, data.length(i), ids.data());
    data.check_ids(i, 0, data.length(i), ids.data(), 1000);
  }
}

}  // namespace
}  // namespace trireme

FUZZ_SEEDS({trireme::valid_index(8, 2), trireme::valid_index(4, 4), trireme::valid_index(1, 1),
            trireme::valid_index(5, 8) + "abc"})

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const Files files;
  write(files.prefix() + ".idx", data, size);
  return fuzz_reader([] { read_everything(IndexedDataset(files.prefix())); });
}
