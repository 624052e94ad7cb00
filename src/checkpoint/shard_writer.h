// One rank's part of a checkpoint: its slices as a safetensors file, hashed while they are written.
#pragma once

#include <functional>
#include <span>

#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/progress.h"
#include "checkpoint/region.h"

namespace trireme {

// Produces elements [begin, end) of a slice, counted from its first stored one, for slices without
// data: so a tensor that does not fit into memory is saved. Called from several threads at the same
// time.
using Producer =
    std::function<void(std::size_t slice, std::int64_t begin, std::int64_t end, std::byte* dst)>;

// Writes `folder`/shard-<rank>.safetensors, makes it durable and returns the part of the manifest
// that describes it. Empty slices are left out; if all are empty there is no file. Without a pool
// the calling thread does all.
Manifest write_shard(const fs::path& folder, int rank, std::span<const SourceSlice> slices,
                     ThreadPool* pool, const Producer& producer, FileProgress* progress = nullptr);

}  // namespace trireme
