// Names of checkpoints on disk, and how a path leads to one.
#include "checkpoint/layout.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "checkpoint/reader.h"
#include "interop/foreign.h"

namespace trireme {
namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view partial_suffix = ".tmp";

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

std::optional<FoundCheckpoint> find_checkpoint(const fs::path& path) {
  if (fs::exists(path / manifest_file)) return FoundCheckpoint{path, false};
  for (const fs::path& folder : {path, path / "checkpoints"}) {
    if (const auto latest = read_latest(folder)) {
      if (!step_of(*latest)) {
        if (const std::string foreign = describe_foreign(folder); !foreign.empty()) {
          fail_input("there is no checkpoint in '{}': {}", folder.string(), foreign);
        }
        const fs::path sound = newest_sound_checkpoint(folder);
        fail_input("'{}' does not name a checkpoint: it should hold a line such as '{}'; {}",
                   (folder / latest_file).string(), step_folder(100),
                   sound.empty() ? "there is no sound checkpoint beside it"
                                 : fmt::format("the newest sound one is '{}'", sound.string()));
      }
      return FoundCheckpoint{folder / *latest, true};
    }
    const std::vector<std::int64_t> steps = saved_steps(folder);
    if (!steps.empty()) return FoundCheckpoint{folder / step_folder(steps.back()), true};
  }
  return std::nullopt;
}

}  // namespace trireme
