// Files of torch.save (.pt, .pth, .bin): a zip archive or, before PyTorch 1.6, a stream of pickles.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/torch/pickle.h"

namespace trireme {

// A file opened for reading and mapping: large data is read, so that it does not stay in memory.
struct TorchBytes {
  explicit TorchBytes(const fs::path& path) : data(path, File::Mode::read), map(data) {}
  File data;
  MappedFile map;
};

// Location of a storage's elements, from the start of the file.
struct TorchExtent {
  std::uint64_t begin = 0, bytes = 0;
  std::optional<std::uint32_t> crc;  // none in the stream format
};

// A file's contents, detected by its first bytes.
struct TorchContent {
  std::optional<Pickle> pickle;
  std::vector<TorchExtent> storages;  // as Pickle::storages()
  bool is_zip = false;
};

// Whether a file begins like a torch.save file; never true for safetensors.
bool is_torch_file(const fs::path& path);

// Parses a whole file in memory; `bytes` must outlive the result. `name` is the file's name for
// messages. Refused (exit code 2): content not written by torch.save, TorchScript, tensors outside
// their storages, storages with a wrong position or size.
TorchContent parse_torch_file(std::span<const std::byte> bytes, const std::string& name,
                              const PickleLimits& limits = {});

// A tensor named by its path of keys, joined with dots: "model.layers.0.weight".
struct TorchEntry {
  std::string name;
  PickleTensor tensor;
};

class TorchFile {
 public:
  explicit TorchFile(const fs::path& path);
  // Opens a file embedded in another one, as in torch.distributed.checkpoint.
  TorchFile(std::shared_ptr<const TorchBytes> bytes, std::uint64_t begin, std::uint64_t size,
            const std::string& name);

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  bool is_zip() const { return content_.is_zip; }
  const Pickle& pickle() const { return *content_.pickle; }

  // Reads elements [begin, end) of a tensor in row-major order, unconverted. The first
  // read of a storage verifies its checksum and refuses damaged data (exit code 2).
  // Thread-safe.
  void read(const PickleTensor& tensor, std::int64_t begin, std::int64_t end, std::byte* dst) const;
  // Whether a tensor has more elements than its storage, by broadcasting: a small file can then
  // hold a tensor of any size.
  bool repeats(const PickleTensor& tensor) const {
    return tensor.count() > pickle().storages()[tensor.storage].count;
  }
  // Verifies the checksums of all storages.
  void verify() const;

 private:
  void check(std::size_t storage) const;
  void gather(const PickleTensor& tensor, std::int64_t begin, std::int64_t end,
              std::byte* dst) const;

  std::shared_ptr<const TorchBytes> bytes_;
  std::uint64_t begin_ = 0, size_ = 0;
  std::string name_;
  TorchContent content_;
  mutable std::mutex mutex_;
  mutable std::deque<std::atomic<bool>> checked_;  // by storage
};

// All tensors below a value, in dictionaries, lists and tuples, in order; the state
// of other objects is skipped. Refused (exit code 2): cyclic values, duplicate
// names.
std::vector<TorchEntry> torch_entries(const Pickle& pickle, PickleId root);

}  // namespace trireme
