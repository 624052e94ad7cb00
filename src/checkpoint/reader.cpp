// Loading: each target is split into jobs, one per block of a stored slice that it needs; a job
// reads its block, verifies it and copies the overlap into the target.
#include "checkpoint/reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "base/counted.h"
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/foreign.h"
#include "checkpoint/layout.h"
#include "tensors/cast.h"

namespace trireme {

struct CheckpointReader::Job {
  const StoredTensor* tensor = nullptr;
  const StoredSlice* slice = nullptr;
  std::int64_t block = 0;
  std::uint64_t data_begin = 0;                  // of the slice, in its file
  const TargetSlice* target = nullptr;           // nullptr: verify only
  std::shared_ptr<const std::vector<Run>> runs;  // from the whole slice to the target
};

namespace {

// Thrown by a task; the caller looks up once what to say about the rest of the checkpoint.
struct DamagedBlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

// Currently open shards, shared between the threads that read them, since each open takes a lock on
// a cluster file system.
class CheckpointReader::OpenShards {
 public:
  explicit OpenShards(const CheckpointReader& reader) : reader_(reader) {}

  std::shared_ptr<const File> open(std::size_t shard) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const File> file = files_[shard].lock();
    if (!file) {
      file = std::make_shared<const File>(reader_.folder_ / reader_.manifest_.shards[shard].file,
                                          File::Mode::read);
      files_[shard] = file;
    }
    return file;
  }

 private:
  const CheckpointReader& reader_;
  std::mutex mutex_;
  std::map<std::size_t, std::weak_ptr<const File>> files_;
};

// Executes jobs sequentially; one per thread.
class CheckpointReader::Worker {
 public:
  Worker(const CheckpointReader& reader, OpenShards& shards) : reader_(reader), shards_(shards) {}

  void run(const Job& job) {
    const std::int64_t element = size_of(job.tensor->dtype);
    const std::int64_t per_block = reader_.manifest_.block_bytes / element;
    const std::int64_t first = job.block * per_block;
    const std::int64_t last = std::min(first + per_block, job.slice->region.count());
    const auto read = [&](std::byte* to) {
      read_checked(job, first * element, (last - first) * element, to);
    };
    if (const auto place = direct_place(job, first, last))
      return job.target->access(*place * element, (last - first) * element, read);
    read(scratch());
    if (job.target) copy_runs(job, first, last, scratch());
  }

 private:
  // The run that contains element `at` of the slice, or the first one after it.
  static auto first_run(const Job& job, std::int64_t at) {
    return std::ranges::upper_bound(*job.runs, at, {},
                                    [](const Run& run) { return run.src + run.count; });
  }

  // The target element where the whole block is located, if it is contiguous there and needs no
  // type conversion.
  static std::optional<std::int64_t> direct_place(const Job& job, std::int64_t first,
                                                  std::int64_t last) {
    if (!job.target || job.target->dtype != job.tensor->dtype) return std::nullopt;
    const auto run = first_run(job, first);
    if (run->src > first || run->src + run->count < last) return std::nullopt;
    return run->dst + first - run->src;
  }

  void read_checked(const Job& job, std::int64_t offset, std::int64_t bytes, std::byte* to) {
    const StoredShard& shard = reader_.manifest_.shards[job.slice->shard];
    if (!file_ || shard_ != job.slice->shard) {
      file_ = shards_.open(job.slice->shard);
      shard_ = job.slice->shard;
    }
    const auto count = static_cast<std::size_t>(bytes);
    const std::uint64_t begin = job.data_begin + static_cast<std::uint64_t>(offset);
    file_->read_at(begin, to, count);
    if (hash64(to, count) != job.slice->checksums[static_cast<std::size_t>(job.block)]) {
      throw DamagedBlock(
          fmt::format("'{}' does not match its checksum in bytes {} to {} (tensor '{}')",
                      shard.file, begin, begin + count, job.tensor->name));
    }
  }

  static void copy_runs(const Job& job, std::int64_t first, std::int64_t last,
                        const std::byte* block) {
    const DType from = job.tensor->dtype, to = job.target->dtype;
    for (auto run = first_run(job, first); run != job.runs->end() && run->src < last; ++run) {
      const std::int64_t begin = std::max(run->src, first);
      const std::int64_t end = std::min(run->src + run->count, last);
      job.target->access((run->dst + begin - run->src) * size_of(to), (end - begin) * size_of(to),
                         [&](std::byte* host) {
                           cast(from, block + (begin - first) * size_of(from), to, host,
                                end - begin);
                         });
    }
  }

  std::byte* scratch() {
    if (!scratch_) {
      scratch_ = std::make_unique_for_overwrite<std::byte[]>(
          static_cast<std::size_t>(reader_.manifest_.block_bytes));
    }
    return scratch_.get();
  }

  const CheckpointReader& reader_;
  OpenShards& shards_;
  std::shared_ptr<const File> file_;
  std::size_t shard_ = 0;
  std::unique_ptr<std::byte[]> scratch_;
};

namespace {

// Lists the steps next to a path that looks like one of a run's checkpoints.
std::string steps_next_to(const fs::path& path) {
  const fs::path folder =
      path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
  if (!fs::is_directory(folder)) return "";
  const std::vector<std::int64_t> steps = saved_steps(folder);
  if (steps.empty()) return "";
  constexpr std::size_t most_named = 8;
  const std::size_t left_out = steps.size() > most_named ? steps.size() - most_named : 0;
  std::vector<std::string> names;
  for (std::size_t i = left_out; i < steps.size(); ++i) names.push_back(step_folder(steps[i]));
  return fmt::format("'{}' holds {}{}", folder.string(), fmt::join(names, ", "),
                     left_out > 0 ? fmt::format(" and {} earlier ones", left_out) : "");
}

[[noreturn]] void refuse_without_checkpoint(const fs::path& path) {
  if (!fs::exists(path)) {
    const std::string others = steps_next_to(path);
    fail_input("'{}' does not exist: expected the folder of a run or of a checkpoint{}{}",
               path.string(), others.empty() ? "" : "; ", others);
  }
  const std::string foreign = describe_foreign(path);
  fail_input("there is no checkpoint in '{}': {}", path.string(),
             foreign.empty() ? "expected the folder of a run that has saved, or of a checkpoint"
                             : foreign);
}

}  // namespace

CheckpointReader::CheckpointReader(const fs::path& path) {
  const auto found = find_checkpoint(path);
  if (!found) refuse_without_checkpoint(path);
  folder_ = found->folder;
  by_latest_ = found->by_latest;
  const fs::path file = folder_ / manifest_file;
  if (!fs::exists(folder_)) refuse("its folder is missing");
  if (!fs::exists(file)) refuse(fmt::format("it has no {}", manifest_file));
  try {
    take(read_file(file, max_manifest_bytes));
  } catch (const Error& error) {
    refuse(error.what());
  }
}

CheckpointReader::CheckpointReader(const fs::path& folder, const std::string& manifest)
    : folder_(folder) {
  take(manifest);
}

void CheckpointReader::take(const std::string& manifest) {
  const std::string name = (folder_ / manifest_file).string();
  manifest_ = parse_manifest(manifest, name);
  check_complete(manifest_, name);
  headers_.resize(manifest_.shards.size());
}

void CheckpointReader::refuse(const std::string& why) const {
  std::string hint;
  if (by_latest_) {
    const fs::path sound = newest_sound_checkpoint(folder_.parent_path(), folder_);
    hint = sound.empty() ? "; there is no sound checkpoint next to it"
                         : fmt::format("; the newest sound one is '{}'", sound.string());
  }
  throw DamagedCheckpoint(
      fmt::format("checkpoint '{}' is damaged: {}{}", folder_.string(), why, hint));
}

const SafetensorsHeader& CheckpointReader::header_of(std::size_t index) {
  SafetensorsHeader& header = headers_[index];
  if (header.data_begin != 0) return header;
  const StoredShard& shard = manifest_.shards[index];
  const fs::path path = folder_ / shard.file;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) refuse(fmt::format("cannot read '{}': {}", shard.file, error.message()));
  if (size != shard.bytes) {
    refuse(
        fmt::format("'{}' has {} instead of {}", shard.file, counted(size, "byte"), shard.bytes));
  }
  try {
    const SafetensorsFile file(path);
    if (hash64(file.header_bytes().data(), file.header_bytes().size()) != shard.header_checksum) {
      fail_input("the header of '{}' does not match its checksum", shard.file);
    }
    header = file.header();
  } catch (const Error& fault) {
    refuse(fault.what());
  }
  return header;
}

std::uint64_t CheckpointReader::data_begin(const StoredTensor& tensor, const StoredSlice& slice) {
  const SafetensorsEntry* entry = header_of(slice.shard).find(slice.key);
  const std::int64_t bytes = slice.region.count() * size_of(tensor.dtype);
  if (!entry || entry->dtype != tensor.dtype ||
      entry->bytes() != static_cast<std::uint64_t>(bytes)) {
    refuse(fmt::format("'{}' does not hold '{}' as its manifest says",
                       manifest_.shards[slice.shard].file, slice.key));
  }
  return entry->begin;
}

std::string CheckpointReader::target_fault(const TargetSlice& target, bool convert) const {
  const StoredTensor* tensor = find(target.name);
  if (!tensor) return fmt::format("has no tensor '{}' {}", target.name, target.tensor.text());
  if (!(tensor->shape == target.tensor)) {
    return fmt::format("has tensor '{}' with shape {}, but {} is needed", target.name,
                       tensor->shape.text(), target.tensor.text());
  }
  if (tensor->dtype != target.dtype && !(convert && can_cast(tensor->dtype, target.dtype))) {
    return fmt::format("has tensor '{}' as {}, but {} is needed", target.name,
                       name_of(tensor->dtype), name_of(target.dtype));
  }
  TRIREME_CHECK(region_fault(target.tensor, target.region).empty());
  return "";
}

void CheckpointReader::check_targets(std::span<const TargetSlice> targets, bool convert) const {
  std::string first;
  int faults = 0;
  for (const TargetSlice& target : targets) {
    std::string fault = target_fault(target, convert);
    if (!fault.empty() && faults++ == 0) first = std::move(fault);
  }
  if (faults == 0) return;
  const std::string more = faults == 1 ? "" : fmt::format(" ({} more do not fit)", faults - 1);
  fail_input(
      "checkpoint '{}' does not fit: it {}{}; [model], [optimizer] and [run] must be those of the "
      "checkpoint, and others need another run.dir",
      folder_.string(), first, more);
}

void CheckpointReader::add_jobs(const TargetSlice& target, std::vector<Job>& jobs) {
  const StoredTensor& tensor = *find(target.name);
  const std::int64_t per_block = manifest_.block_bytes / size_of(tensor.dtype);
  for (const StoredSlice& slice : tensor.slices) {
    auto runs = std::make_shared<const std::vector<Run>>(
        overlap(tensor.shape, slice.region, target.region));
    if (runs->empty()) continue;
    Job job{&tensor, &slice, -1, data_begin(tensor, slice), &target, runs};
    for (const Run& run : *runs) {
      const std::int64_t last = (run.src + run.count - 1) / per_block;
      for (std::int64_t block = std::max(run.src / per_block, job.block + 1); block <= last;
           ++block) {
        job.block = block;
        jobs.push_back(job);
      }
    }
  }
}

void CheckpointReader::run(std::vector<Job> jobs, ThreadPool* pool, FileProgress* progress) {
  // Ordered by shard, so that shards are not reopened for each tensor.
  std::ranges::stable_sort(jobs, {}, [](const Job& job) { return job.slice->shard; });
  OpenShards shards(*this);
  std::vector<Worker> workers;
  const int size = pool ? pool->size() : 1;
  workers.reserve(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) workers.emplace_back(*this, shards);
  const auto run_job = [&](std::int64_t task, int worker) {
    workers[static_cast<std::size_t>(worker)].run(jobs[static_cast<std::size_t>(task)]);
    if (progress) progress->moved(manifest_.block_bytes);
  };
  const auto tasks = static_cast<std::int64_t>(jobs.size());
  try {
    if (pool) {
      pool->run(tasks, run_job);
    } else {
      for (std::int64_t task = 0; task < tasks; ++task) run_job(task, 0);
    }
  } catch (const DamagedBlock& damage) {
    refuse(damage.what());
  }
}

void CheckpointReader::read(std::span<const TargetSlice> targets, const ReadOptions& options) {
  check_targets(targets, options.convert);
  std::vector<Job> jobs;
  for (const TargetSlice& target : targets) add_jobs(target, jobs);
  run(std::move(jobs), options.pool, options.progress);
}

void CheckpointReader::verify(ThreadPool* pool, int part, int parts, FileProgress* progress) {
  std::vector<Job> jobs;
  for (const StoredTensor& tensor : manifest_.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      for (std::size_t block = 0; block < slice.checksums.size(); ++block) {
        jobs.push_back({&tensor, &slice, static_cast<std::int64_t>(block)});
      }
    }
  }
  const std::size_t begin = jobs.size() * static_cast<std::size_t>(part) / parts;
  const std::size_t end = jobs.size() * static_cast<std::size_t>(part + 1) / parts;
  jobs = {jobs.begin() + static_cast<std::ptrdiff_t>(begin),
          jobs.begin() + static_cast<std::ptrdiff_t>(end)};
  for (Job& job : jobs) job.data_begin = data_begin(*job.tensor, *job.slice);
  run(std::move(jobs), pool, progress);
}

fs::path newest_sound_checkpoint(const fs::path& folder, const fs::path& except,
                                 FileProgress* progress) {
  const std::vector<std::int64_t> steps = saved_steps(folder);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    fs::path path = folder / step_folder(*step);
    if (path == except) continue;
    try {
      CheckpointReader(path).verify(&ThreadPool::global(), 0, 1, progress);
      return path;
    } catch (const Error&) {  // try the next older one
    }
  }
  return {};
}

}  // namespace trireme
