// Each slice of a rank is a separate tensor in these checkpoints: ranks of other layouts cannot use
// it.
#include "train/checkpoints/local_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/thread_pool.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "checkpoint/tidy.h"
#include "train/checkpoints/slices.h"
#include "train/run/ranks.h"

namespace trireme {
namespace {

constexpr std::size_t kept_steps = 2;  // ranks may be one save apart
constexpr const char* identity_file = "local_checkpoints_id";
constexpr const char* node_file = "node";  // in the run's folder on a disk

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
const fs::path& LocalCheckpoints::run_folder() {
  if (!run_folder_.empty()) return run_folder_;
  const fs::path run = fs::absolute(config_.run.dir).lexically_normal();
  const std::string name = from_rank_0(
      transport_,
      rank() > 0
          ? ""
          : fmt::format("{}-{}", run.filename().string(),
                        hash_to_text(hash64(read_identity(run / identity_file) + run.string()))));
  run_folder_ = fs::absolute(config_.checkpoint.local_dir) / name;
  return run_folder_;
}

LocalCheckpoints::LocalCheckpoints(const Config& config, Engine& engine, Transport* transport,
                                   FileProgress* files)
    : config_(config),
      engine_(engine),
      transport_(transport),
      files_(files),
      hosts_(transport ? transport->hosts() : std::vector<std::string>(1)) {}

// By rank: the text in the file of the disk that it sees, or its host where there is none.
std::vector<std::string> LocalCheckpoints::disks() {
  const std::string& host = hosts_[static_cast<std::size_t>(rank())];
  const fs::path file = run_folder() / node_file;
  std::string disk = host;
  try {
    if (std::ranges::find(hosts_, host) - hosts_.begin() == rank()) {
      make_folders(run_folder());
      write_file_durably(file, draw());
    }
  } catch (const std::exception&) {  // saves will fail, and say why
  }
  if (transport_) transport_->world().barrier("local disks").wait();
  try {
    disk = hash_to_text(hash64(read_file(file, 1 << 10)));
  } catch (const std::exception&) {
  }
  std::string all;
  for (const std::string& one : reports_of_ranks(transport_, disk)) all += one + "\n";
  std::vector<std::string> disks;
  std::istringstream lines(from_rank_0(transport_, all));
  for (std::string line; std::getline(lines, line);) disks.push_back(line);
  TRIREME_CHECK(disks.size() == hosts_.size());
  return disks;
}

void LocalCheckpoints::find_nodes() {
  const std::vector<std::string> nodes = disks();
  if (config_.checkpoint.local_copies > 0) holders_ = copy_holders(nodes);
  here_.clear();
  for (std::size_t r = 0; r < nodes.size(); ++r)
    if (nodes[r] == nodes[static_cast<std::size_t>(rank())]) here_.push_back(static_cast<int>(r));
}

std::string LocalCheckpoints::why_no_copies() const {
  if (config_.checkpoint.local_copies == 0 || !holders_.empty()) return "";
  std::string why = fmt::format("checkpoint.local_dir = '{}' is one folder for all nodes",
                                config_.checkpoint.local_dir);
  if (hosts_.size() == 1)
    why = "there is a single rank";
  else if (std::ranges::count(hosts_, hosts_.front()) == std::ssize(hosts_))
    why = fmt::format("all {} ranks are on {}", hosts_.size(), hosts_.front());
  return fmt::format(
      "checkpoint.local_copies = 1 makes no copies: {}, and a copy belongs on another node; if this "
      "node is lost, the run resumes from the newest checkpoint in run.dir",
      why);
}

bool LocalCheckpoints::is_here(int owner) const {
  return std::ranges::binary_search(here_, owner);
}

// Ranks of this node read their own folders and share the others.
bool LocalCheckpoints::reads(int owner) const {
  if (is_here(owner)) return owner == rank();
  return here_[static_cast<std::size_t>(owner) % here_.size()] == rank();
}

std::vector<LocalFolder> LocalCheckpoints::readable_folders() {
  std::vector<LocalFolder> folders = local_folders(run_folder());
  std::erase_if(folders, [&](const LocalFolder& folder) { return !reads(folder.owner); });
  return folders;
}

std::vector<LocalPart> LocalCheckpoints::parts(std::int64_t shared) {
  std::vector<LocalPart> all;
  for (const LocalFolder& folder : readable_folders()) {
    tidy_checkpoints(folder.path, files_);
    const std::vector<LocalPart> some = parts_in(folder, rank(), shared);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Parts are verified only when they are chosen; one that is damaged is left out of the next choice.
std::optional<std::int64_t> LocalCheckpoints::find(std::int64_t shared) {
  const FileProgress::Phase phase(files_, "is checking local checkpoints");
  const std::vector<std::string> reports = reports_of_ranks(transport_, to_text(parts(shared))),
                                 layouts = reports_of_ranks(transport_,
                                                            layout_text(config_, engine_, rank()));
  std::vector<LocalPart> found;  // on rank 0
  for (const std::string& report : reports) {
    const std::vector<LocalPart> some = parts_of_text(report);
    found.insert(found.end(), some.begin(), some.end());
  }
  for (;;) {
    const std::optional<LocalStep> chosen = newest_step(found, layouts);
    const std::vector<LocalPart> parts =
        parts_of_text(from_rank_0(transport_, chosen ? to_text(chosen->parts) : ""));
    if (parts.empty()) return std::nullopt;
    const LocalStep step{parts.front().step, parts};
    const std::vector<std::string> failures = reports_of_ranks(transport_, fetch(step));
    std::string damage;
    for (std::size_t r = 0; r < failures.size(); ++r) {
      if (failures[r].empty()) continue;
      std::erase(found, parts[r]);
      damage = fmt::format("step {} of rank {}: {}", step.step, r, failures[r]);
      unusable_.push_back(damage);
    }
    if (from_rank_0(transport_, damage).empty()) return step.step;
  }
}

// Brings this rank's part into its own folder. Returns why it is not usable, or "".
std::string LocalCheckpoints::fetch(const LocalStep& step) {
  std::vector<MovedCheckpoint> sends, receives;
  for (const LocalPart& part : step.parts) {
    if (part.reader == part.owner) continue;
    if (part.reader == rank())
      sends.push_back({part.owner, local_folder(run_folder(), part.owner, part.copy), step.step});
    if (part.owner == rank()) receives.push_back({part.reader, own_folder(), step.step});
  }
  std::string failure;
  if (transport_) failure = exchange_checkpoints(transport_->world(), sends, receives, files_);
  // The rank that receives a part reports for it.
  const bool received = !receives.empty();
  if (received && !failure.empty()) return failure;
  try {
    const LocalPart& own = step.parts[static_cast<std::size_t>(rank())];
    const fs::path name = step_folder(step.step);
    if (own.copy && !received) {
      make_folders(own_folder());
      replace_folder(local_folder(run_folder(), rank(), true) / name, own_folder() / name,
                     own_folder() / replaced_folder(step.step));
    }
    CheckpointReader reader(own_folder() / name);
    // An earlier choice may have replaced it.
    if (hash_to_text(hash64(reader.state().texts.at("branch"))) != own.branch)
      return "another branch of the run saved it";
    if (!received) reader.verify(&ThreadPool::global(), 0, 1, files_);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void LocalCheckpoints::forget_after(std::int64_t step) {
  for (const LocalFolder& folder : readable_folders()) {
    for (const std::int64_t saved : saved_steps(folder.path))
      if (saved > step) remove_checkpoint(folder.path, saved, files_);
  }
}

CheckpointState LocalCheckpoints::load(std::int64_t step) {
  const FileProgress::Phase phase(files_, "is reading a local checkpoint");
  CheckpointReader reader(own_folder() / step_folder(step));
  reader.read(targets(engine_), {false, &ThreadPool::global(), files_});
  engine_.refresh_compute();
  start_copying(step);
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
    options.folder = own_folder();
    options.program = "trireme " TRIREME_VERSION;
    Ranks alone;
    alone.progress = files_;
    save_checkpoint(options, state, sources(engine_), alone);
  } catch (const std::exception& error) {
    failure = fmt::format("rank {}: {}", rank(), error.what());
  }
  failure = first_failure(transport_, failure);
  if (failure.empty()) start_copying(state.step);
  keep_newest(own_folder());
  return failure;
}

// Without copies, a step is secured once it is saved.
void LocalCheckpoints::start_copying(std::int64_t step) {
  if (holders_.empty()) {
    secured_ = step;
    remove_others();
    return;
  }
  if (!copies_) copies_.emplace(*transport_, files_);
  const std::vector<MovedCheckpoint> sends = {
      {holders_[static_cast<std::size_t>(rank())], own_folder(), step}};
  std::vector<MovedCheckpoint> receives;
  for (std::size_t r = 0; r < holders_.size(); ++r) {
    const int owner = static_cast<int>(r);
    if (holders_[r] == rank())
      receives.push_back({owner, local_folder(run_folder(), owner, true), step});
  }
  copies_->start(step, sends, receives);
}

std::optional<CopyReport> LocalCheckpoints::finish_copying() {
  std::optional<CopyReport> report = copies_ ? copies_->finish() : std::nullopt;
  if (!report) return report;
  if (report->failure.empty()) {
    secured_ = report->step;
    remove_others();
  }
  for (const LocalFolder& folder : readable_folders()) keep_newest(folder.path);
  return report;
}

// A secured step is kept even if newer ones follow: these may be missing on another rank.
void LocalCheckpoints::keep_newest(const fs::path& folder) {
  const std::vector<std::int64_t> steps = saved_steps(folder);
  for (std::size_t i = 0; i + kept_steps < steps.size(); ++i)
    if (steps[i] != secured_) remove_checkpoint(folder, steps[i], files_);
}

// Removes folders of ranks that are, or have copies, on other nodes since this start. They may have
// been the only source of a part until now.
void LocalCheckpoints::remove_others() {
  if (std::exchange(removed_others_, true)) return;
  for (const LocalFolder& folder : readable_folders()) {
    const auto owner = static_cast<std::size_t>(folder.owner);
    const bool used =
        folder.copy ? owner < holders_.size() && is_here(holders_[owner]) : is_here(folder.owner);
    if (!used) remove_folder(folder.path, files_);
  }
}

}  // namespace trireme
