// Each slice of a rank is a separate tensor in these checkpoints: other ranks cannot use it.
#include "train/local_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

#include "base/hash.h"
#include "base/thread_pool.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "checkpoint/tidy.h"
#include "train/ranks.h"
#include "train/slices.h"

namespace trireme {
namespace {

constexpr int kept = 2;  // ranks may be one save apart
constexpr const char* identity_file = "local_checkpoints_id";

std::vector<TargetSlice> targets(Engine& engine) {
  std::vector<TargetSlice> slices;
  for (int c = 0; c < engine.chunks(); ++c) {
    const auto own = loaded_slices(engine.stage(c), engine.optimizer(c), {});
    slices.insert(slices.end(), own.begin(), own.end());
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    TargetSlice& slice = slices[i];
    slice.name = fmt::format("{:06} {}{}", i, slice.name, slice.region.text());
    slice.tensor = {slice.region.count()};
    slice.region = Region::whole(slice.tensor);
  }
  return slices;
}

std::vector<SourceSlice> sources(Engine& engine) {
  std::vector<SourceSlice> slices;
  for (const TargetSlice& t : targets(engine))
    slices.push_back(
        {t.name, t.dtype, t.tensor, t.region, t.data, t.device, t.store, t.store_begin});
  return slices;
}

// Describes the contents and the owner of a local checkpoint.
std::string layout_text(const Config& config, Engine& engine, int rank) {
  std::string text = fmt::format("{} {} {}", engine.mesh().text(), rank, config.optimizer.name);
  for (const TargetSlice& slice : targets(engine))
    text += fmt::format("\n{} {}", slice.name, name_of(slice.dtype));
  return hash_to_text(hash64(text));
}

std::string draw() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}\n", device(), device());
}

std::string read_identity(const fs::path& path) {
  if (!fs::exists(path)) write_file_durably(path, draw());
  return read_file(path, 1 << 10);
}

}  // namespace

// Returns the folder, which depends on the run: a run restarted from scratch in the same folder has
// a different one, and so has a copy of the run.
const fs::path& LocalCheckpoints::folder() {
  if (!folder_.empty()) return folder_;
  const fs::path run = fs::absolute(config_.run.dir).lexically_normal();
  const std::string name = from_rank_0(
      transport_,
      rank() > 0
          ? ""
          : fmt::format("{}-{}", run.filename().string(),
                        hash_to_text(hash64(read_identity(run / identity_file) + run.string()))));
  folder_ = fs::path(config_.checkpoint.local_dir) / name / fmt::format("rank-{:05}", rank());
  return folder_;
}

std::vector<LocalCheckpoints::Saved> LocalCheckpoints::usable(std::int64_t shared) {
  std::vector<Saved> usable;
  std::error_code error;
  if (!fs::exists(folder(), error)) return usable;
  const std::string layout = layout_text(config_, engine_, rank());
  tidy_checkpoints(folder(), files_);
  for (const std::int64_t step : saved_steps(folder())) {
    try {
      CheckpointReader reader(folder() / step_folder(step));
      const auto& texts = reader.state().texts;
      const auto says = [&](const char* key, const std::string& value) {
        const auto found = texts.find(key);
        return found != texts.end() && found->second == value;
      };
      if (step <= shared || !says("layout", layout) || !says("after", std::to_string(shared)))
        continue;
      reader.verify(&ThreadPool::global(), 0, 1, files_);
      usable.push_back({step, static_cast<std::int64_t>(hash64(texts.at("branch")))});
    } catch (const std::exception&) {
      continue;  // unusable, but others may be usable
    }
  }
  return usable;
}

std::optional<std::int64_t> LocalCheckpoints::newest(std::int64_t shared) {
  const FileProgress::Phase phase(files_, "is checking local checkpoints");
  const std::vector<Saved> saved = usable(shared);
  std::array<Saved, kept + 1> own;
  std::copy_n(saved.rbegin(), std::min(saved.size(), own.size()), own.begin());
  const auto ranks = static_cast<std::size_t>(engine_.mesh().size());
  std::vector<Saved> all(own.begin(), own.end());
  if (transport_) {
    static_assert(sizeof(Saved) == 2 * sizeof(std::int64_t));
    all.resize(own.size() * ranks);
    transport_->world()
        .all_gather(own.data(), all.data(), static_cast<std::int64_t>(2 * own.size()), DType::i64,
                    "local checkpoints")
        .wait();
  }
  std::optional<std::int64_t> newest;
  for (const Saved& one : std::span(all).first(own.size())) {
    const auto having = std::ranges::count(all, one);
    if (one.step >= 0 && having == static_cast<std::ptrdiff_t>(ranks) &&
        (!newest || one.step > *newest))
      newest = one.step;
  }
  return newest;
}

void LocalCheckpoints::forget_after(std::int64_t step) {
  std::error_code error;
  if (!fs::exists(folder(), error)) return;
  for (const std::int64_t saved : saved_steps(folder()))
    if (saved > step) fs::remove_all(folder() / step_folder(saved), error);
}

CheckpointState LocalCheckpoints::load(std::int64_t step) {
  const FileProgress::Phase phase(files_, "is reading a local checkpoint");
  CheckpointReader reader(folder() / step_folder(step));
  reader.read(targets(engine_), {false, &ThreadPool::global(), files_});
  engine_.refresh_compute();
  return reader.state();
}

std::string LocalCheckpoints::save(CheckpointState state, std::int64_t shared) {
  if (branch_.empty()) branch_ = from_rank_0(transport_, rank() > 0 ? "" : draw());
  std::string failure;
  try {
    state.texts["branch"] = branch_;
    state.texts["layout"] = layout_text(config_, engine_, rank());
    state.texts["after"] = std::to_string(shared);
    SaveOptions options;
    options.folder = folder();
    options.program = "trireme " TRIREME_VERSION;
    options.keep = kept;
    Ranks alone;
    alone.progress = files_;
    save_checkpoint(options, state, sources(engine_), alone);
  } catch (const std::exception& error) {
    failure = fmt::format("rank {}: {}", rank(), error.what());
  }
  const std::vector<std::string> failures = reports_of_ranks(transport_, failure);
  const auto first = std::ranges::find_if(failures, [](const auto& text) { return !text.empty(); });
  return first == failures.end() ? "" : *first;
}

}  // namespace trireme
