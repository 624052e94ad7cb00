// Finds step folders and the rank folders in them.
#include "formats/megatron/step.h"

#include <fmt/ranges.h>

#include <charconv>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "formats/run_steps.h"

namespace trireme {

namespace {

bool has_ranks(const fs::path& folder) {
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error))
    if (megatron_rank_name(item.path().filename().string())) return true;
  return false;
}

// Whether the step is complete: a file for each rank, or the distributed format's files.
bool is_whole_step(const fs::path& step) {
  if (fs::exists(step / "metadata.json")) {
    return fs::exists(step / ".metadata") || !has_ranks(step);  // other backends have no .metadata
  }
  std::error_code error;
  bool any = false;
  for (const auto& item : fs::directory_iterator(step, error)) {
    if (!megatron_rank_name(item.path().filename().string())) continue;
    if (!fs::exists(item.path() / megatron_rank_file)) return false;
    any = true;
  }
  return any;
}

bool has_step_name(const std::string& name) {
  constexpr std::string_view prefix = "iter_";
  return name == "release" || (name.starts_with(prefix) &&
                               name.find_first_not_of("0123456789", prefix.size()) == name.npos);
}

// Complete steps of a run's folder.
std::vector<std::string> steps_of(const fs::path& run) {
  return whole_steps(run, [](const fs::path& folder) {
    return has_step_name(folder.filename().string()) && is_whole_step(folder);
  });
}

// Folder name of the step in a tracker file; nullopt if the file names none.
std::optional<std::string> step_name(const std::string& text) {
  int step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && step >= 0;
  if (is_number) return fmt::format("iter_{:07d}", step);
  return text == "release" ? std::optional(text) : std::nullopt;
}

}  // namespace

std::string megatron_rank_folder(int tensor_rank, int stage, bool has_stage) {
  return has_stage ? fmt::format("mp_rank_{:02d}_{:03d}", tensor_rank, stage)
                   : fmt::format("mp_rank_{:02d}", tensor_rank);
}

std::optional<MegatronRankName> megatron_rank_name(std::string_view name) {
  constexpr std::string_view prefix = "mp_rank_";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  MegatronRankName rank;
  for (int* number : {&rank.tensor_rank, &rank.stage}) {
    const char* const end = name.data() + name.size();
    const auto [next, error] = std::from_chars(name.data(), end, *number);
    if (error != std::errc() || *number < 0 || *number >= most_megatron_ranks) return std::nullopt;
    ++rank.numbers;
    if (next == end) return rank;
    if (*next != '_') return std::nullopt;
    name.remove_prefix(static_cast<std::size_t>(next - name.data()) + 1);
  }
  rank.numbers = 3;  // a third number: expert parallelism
  return rank;
}

std::string names_in_folder(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) names.insert(item.path().filename());
  if (names.empty()) return "none";
  if (names.size() <= 12) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} from '{}' to '{}'", counted(names.size(), "name"), *names.begin(),
                     *names.rbegin());
}

bool is_megatron_folder(const fs::path& folder) {
  return fs::exists(folder / megatron_tracker_file) || has_ranks(folder) ||
         !steps_of(folder).empty();
}

std::optional<fs::path> find_megatron_step(const fs::path& folder) {
  const fs::path tracker = folder / megatron_tracker_file;
  if (!fs::exists(tracker)) {
    if (has_ranks(folder) || fs::exists(folder / "metadata.json")) return folder;
    // A run with a single step does not need a tracker file.
    const std::vector<std::string> steps = steps_of(folder);
    if (steps.size() > 1) return std::nullopt;
    return steps.empty() ? folder : folder / steps[0];
  }
  const auto name = step_name(step_named_in(tracker));
  if (!name || !is_whole_step(folder / *name)) return std::nullopt;
  return folder / *name;
}

fs::path megatron_step_folder(const fs::path& folder) {
  if (auto step = find_megatron_step(folder)) return *step;
  const fs::path tracker = folder / megatron_tracker_file;
  const std::string whole = whole_steps_text(folder, steps_of(folder));
  if (!fs::exists(tracker)) {
    fail_input("'{}' has no file '{}' that says which step of it is meant; {}", folder.string(),
               megatron_tracker_file, whole);
  }
  const std::string text = step_named_in(tracker);
  const auto name = step_name(text);
  if (!name) {
    fail_input("'{}' holds {:?}; expected is the number of a step, or release; {}",
               tracker.string(), text.substr(0, 40), whole);
  }
  const fs::path step = folder / *name;
  if (!fs::is_directory(step)) {
    fail_input("'{}' names step {}, and '{}' is not there; {}", tracker.string(), text,
               step.string(), whole);
  }
  fail_input(
      "'{}' names step {}, and '{}' is not whole: expected is a file {} in a folder mp_rank_TT of "
      "each rank, or metadata.json and .metadata; found are {}; {}",
      tracker.string(), text, step.string(), megatron_rank_file, names_in_folder(step), whole);
}

}  // namespace trireme
