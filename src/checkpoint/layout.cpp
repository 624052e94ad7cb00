// Names of checkpoints on disk, and resolution of a path to a checkpoint.
#include "checkpoint/layout.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "checkpoint/foreign.h"
#include "checkpoint/reader.h"

namespace trireme {
namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view partial_suffix = ".tmp";
constexpr std::string_view replaced_suffix = ".old.tmp";

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
  }
  return paths;
}

}  // namespace

std::string step_folder(std::int64_t step) {
  return fmt::format("{}{:08d}", step_prefix, step);
}

std::string partial_folder(std::int64_t step) {
  return step_folder(step) + std::string(partial_suffix);
}

std::string replaced_folder(std::int64_t step) {
  return step_folder(step) + std::string(replaced_suffix);
}

std::string shard_file(int rank) {
  return fmt::format("shard-{:05d}.safetensors", rank);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  const std::string_view digits = name.substr(step_prefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), step);
  if (error != std::errc() || end != digits.end() || step < 0) return std::nullopt;
  if (step_folder(step) != name) return std::nullopt;
  return step;
}

std::optional<std::int64_t> replaced_step_of(std::string_view name) {
  if (!name.ends_with(replaced_suffix)) return std::nullopt;
  return step_of(name.substr(0, name.size() - replaced_suffix.size()));
}

std::vector<std::int64_t> saved_steps(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  for (const fs::path& path : entries(folder)) {
    const auto step = step_of(path.filename().string());
    if (step && fs::exists(path / manifest_file)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::vector<fs::path> partial_folders(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::path& path : entries(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with(step_prefix) && name.ends_with(partial_suffix)) found.push_back(path);
  }
  return found;
}

std::optional<std::string> read_latest(const fs::path& folder) {
  const fs::path path = folder / latest_file;
  if (!fs::exists(path)) return std::nullopt;
  std::string text = read_file(path, 4096);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

fs::path run_folder(const fs::path& checkpoint) {
  fs::path path = fs::absolute(checkpoint).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.parent_path().parent_path();
}

namespace {

[[noreturn]] void refuse_latest(const fs::path& folder) {
  // DeepSpeed also writes a file named `latest`.
  if (const std::string foreign = describe_foreign(folder); !foreign.empty())
    fail_input("there is no checkpoint in '{}': {}", folder.string(), foreign);
  const fs::path sound = newest_sound_checkpoint(folder);
  fail_input("'{}' does not name a checkpoint: it should hold a line such as '{}'; {}",
             (folder / latest_file).string(), step_folder(100),
             sound.empty() ? "there is no sound checkpoint next to it"
                           : fmt::format("the newest sound one is '{}'", sound.string()));
}

bool is_newer(const fs::path& a, const fs::path& b) {
  std::error_code error;
  const auto time_a = fs::last_write_time(a, error);
  const auto time_b = fs::last_write_time(b, error);
  return !error && time_a > time_b;
}

std::optional<FoundCheckpoint> newest_in(const fs::path& folder) {
  const std::vector<std::int64_t> steps = saved_steps(folder);
  const auto found = [&](const std::string& name, const std::string& note) {
    return FoundCheckpoint{folder / name, true, note};
  };
  const auto latest = read_latest(folder);
  if (!latest) {
    if (steps.empty()) return std::nullopt;
    return found(step_folder(steps.back()), "");
  }
  const auto step = step_of(*latest);
  if (!step) refuse_latest(folder);
  if (fs::exists(folder / *latest)) {
    for (auto later = steps.rbegin(); later != steps.rend() && *later > *step; ++later) {
      if (is_newer(folder / step_folder(*later) / manifest_file, folder / latest_file)) {
        return found(step_folder(*later),
                     fmt::format("'{}' names {}, but {} was completed after it",
                                 (folder / latest_file).string(), *latest, step_folder(*later)));
      }
    }
    return found(*latest, "");
  }
  const std::string lost =
      fmt::format("'{}' names {}, which is not there", (folder / latest_file).string(), *latest);
  if (fs::exists(folder / replaced_folder(*step) / manifest_file))
    return found(replaced_folder(*step), lost);
  return found(steps.empty() ? *latest : step_folder(steps.back()), lost);
}

}  // namespace

std::optional<FoundCheckpoint> find_checkpoint(const fs::path& path) {
  if (fs::exists(path / manifest_file)) return FoundCheckpoint{path, false, ""};
  for (const fs::path& folder : {path, path / "checkpoints"}) {
    if (auto found = newest_in(folder)) return found;
  }
  return std::nullopt;
}

}  // namespace trireme
