// Processes each block of each slice as a task: produce or locate it, hash it, write it.
#include "checkpoint/shard_writer.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/layout.h"
#include "tensors/safetensors_writer.h"

namespace trireme {
namespace {

// Key of a slice in its shard: the tensor's name if the slice is the whole tensor.
std::string entry_key(const SourceSlice& slice) {
  return slice.region == Region::whole(slice.tensor) ? slice.name
                                                     : slice.name + slice.region.text();
}

SafetensorsTensor entry_of(const SourceSlice& slice) {
  const Region& region = slice.region;
  if (!region.is_full_rectangle()) return {entry_key(slice), slice.dtype, {region.count()}};
  return {entry_key(slice), slice.dtype, {region.shape.begin(), region.shape.end()}};
}

class Shard {
 public:
  Shard(const fs::path& path, std::span<const SourceSlice> given, std::int64_t block_bytes,
        const Producer& producer, FileProgress* progress)
      : given_(given), block_bytes_(block_bytes), producer_(producer), progress_(progress) {
    std::vector<SafetensorsTensor> entries;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const SourceSlice& slice = given[i];
      TRIREME_CHECK(region_fault(slice.tensor, slice.region).empty());
      if (slice.region.count() == 0) continue;
      const std::int64_t blocks = (slice.bytes() + block_bytes - 1) / block_bytes;
      for (std::int64_t block = 0; block < blocks; ++block) {
        tasks_.push_back({i, entries.size(), block});
      }
      bytes_ += slice.bytes();
      entries.push_back(entry_of(slice));
      stored_.push_back({0, entries.back().name, slice.region,
                         std::vector<std::uint64_t>(static_cast<std::size_t>(blocks))});
      slice_of_.push_back(i);
    }
    if (!entries.empty()) {
      file_ = std::make_unique<SafetensorsWriter>(
          path, entries, std::map<std::string, std::string>{{"format", "pt"}});
    }
  }

  void write(ThreadPool* pool) {
    const auto tasks = static_cast<std::int64_t>(tasks_.size());
    if (progress_) progress_->expect(bytes_);
    scratch_.resize(pool ? static_cast<std::size_t>(pool->size()) : 1);
    if (pool) {
      pool->run(tasks, [&](std::int64_t task, int worker) { write_block(task, worker); });
    } else {
      for (std::int64_t task = 0; task < tasks; ++task) write_block(task, 0);
    }
    if (file_) file_->finish();
    if (progress_) progress_->moved(0);
  }

  Manifest manifest(const std::string& file_name) const {
    Manifest part;
    part.block_bytes = block_bytes_;
    if (!file_) return part;
    part.shards.push_back({file_name, file_->file_bytes(), hash64(file_->header())});
    std::map<std::string, StoredTensor> tensors;
    for (std::size_t entry = 0; entry < stored_.size(); ++entry) {
      const SourceSlice& slice = given_[slice_of_[entry]];
      const auto [it, is_new] =
          tensors.try_emplace(slice.name, StoredTensor{slice.name, slice.dtype, slice.tensor, {}});
      it->second.slices.push_back(stored_[entry]);
    }
    for (auto& [name, tensor] : tensors) part.tensors.push_back(std::move(tensor));
    return part;
  }

 private:
  struct Task {
    std::size_t slice;  // index into given_
    std::size_t entry;  // index in the file
    std::int64_t block;
  };

  void write_block(std::int64_t index, int worker) {
    const Task& task = tasks_[static_cast<std::size_t>(index)];
    const SourceSlice& slice = given_[task.slice];
    const std::int64_t begin = task.block * block_bytes_;
    const std::int64_t bytes = std::min(block_bytes_, slice.bytes() - begin);
    const auto store = [&](const std::byte* data) {
      stored_[task.entry].checksums[static_cast<std::size_t>(task.block)] =
          hash64(data, static_cast<std::size_t>(bytes));
      file_->write(task.entry, static_cast<std::uint64_t>(begin), data,
                   static_cast<std::uint64_t>(bytes));
    };
    if (slice.data || slice.store) {
      slice.access(begin, bytes, store);
    } else {
      store(produce(task.slice, begin, bytes, worker));
    }
    if (progress_) progress_->moved(bytes);
  }

  const std::byte* produce(std::size_t slice, std::int64_t begin, std::int64_t bytes, int worker) {
    auto& scratch = scratch_[static_cast<std::size_t>(worker)];
    if (!scratch) {
      scratch = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(block_bytes_));
    }
    const std::int64_t element = size_of(given_[slice].dtype);
    producer_(slice, begin / element, (begin + bytes) / element, scratch.get());
    return scratch.get();
  }

  std::span<const SourceSlice> given_;
  std::int64_t block_bytes_;
  const Producer& producer_;
  FileProgress* progress_;
  std::int64_t bytes_ = 0;
  std::vector<Task> tasks_;
  std::vector<StoredSlice> stored_;                    // by entry
  std::vector<std::size_t> slice_of_;                  // by entry
  std::vector<std::unique_ptr<std::byte[]>> scratch_;  // by worker
  std::unique_ptr<SafetensorsWriter> file_;
};

}  // namespace

Manifest write_shard(const fs::path& folder, int rank, std::span<const SourceSlice> slices,
                     ThreadPool* pool, const Producer& producer, FileProgress* progress) {
  const std::string name = shard_file(rank);
  Shard shard(folder / name, slices, default_block_bytes, producer, progress);
  shard.write(pool);
  return shard.manifest(name);
}

}  // namespace trireme
