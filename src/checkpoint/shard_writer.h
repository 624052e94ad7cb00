// Writes one rank's part of a checkpoint as a safetensors file and hashes it on the way.
#pragma once

#include <functional>
#include <span>

#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/progress.h"
#include "checkpoint/region.h"

namespace trireme {

// Produces elements [begin, end) of a slice without data, counted from its first stored
// element, so that tensors larger than memory can be saved. Called concurrently from several
// threads.
using Producer =
    std::function<void(std::size_t slice, std::int64_t begin, std::int64_t end, std::byte* dst)>;

// Writes `folder`/shard-<rank>.safetensors durably and returns the part of the manifest that
// describes it. Empty slices are omitted; if all are empty, no file is written. Without a pool, the
// calling thread does the work.
Manifest write_shard(const fs::path& folder, int rank, std::span<const SourceSlice> slices,
                     ThreadPool* pool, const Producer& producer, FileProgress* progress = nullptr);

}  // namespace trireme
