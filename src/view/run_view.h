// The state of a run's folder as shown by the page; reloaded when files change.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "plan/timing/speed.h"
#include "view/metric_lines.h"
#include "view/run_events.h"

namespace trireme {

// A file that is reread in full when it has changed.
class WatchedFile {
 public:
  explicit WatchedFile(fs::path path) : path_(std::move(path)) {}
  // Returns true if the file has changed since the last call: reread text().
  bool has_changed();
  // Empty if the file does not exist; throws Error if it cannot be read.
  std::optional<std::string> text() const;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool there_ = false, seen_ = false;
  fs::file_time_type time_{};
  std::uintmax_t size_ = 0;
};

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::uint64_t bytes = 0;
  std::int64_t time = 0;  // completion time, in seconds since 1970
};

// Contents of status.json.
struct RunStatusText {
  std::string json = "{}";  // the object, with known members only
  std::string note;
  bool running = false;
  int ranks = 0;  // 0: not stated
};

class RunView {
 public:
  // `speed`: the machine whose peak defines utilization; must outlive this object; null:
  // unknown.
  explicit RunView(const fs::path& folder, const MachineSpeed* speed = nullptr);

  const fs::path& folder() const { return folder_; }
  // Reads new data. Problems with files are reported as notes; never throws.
  void refresh();

  // Returns the changes since reading `version` of this `generation`; everything, if the page has
  // another generation. The text is members of a JSON object, without braces.
  std::string update(std::uint64_t generation, std::uint64_t version) const;

  // The configuration for drawing layouts; empty if config.toml is unusable.
  const std::optional<Config>& config() const { return config_; }
  int ranks() const;
  // Changes when config() or ranks() do.
  std::uint64_t layout_version() const { return layout_version_; }
  bool is_whole() const { return metrics_.is_whole() && timings_.is_whole(); }

 private:
  void read_status();
  void read_config();
  void list_folder();
  void list_checkpoints();
  void list_samples();
  std::vector<std::string> notes() const;

  fs::path folder_;
  const MachineSpeed* speed_;
  MetricLines metrics_, timings_;
  RunEvents events_;
  WatchedFile status_file_, config_file_;
  RunStatusText status_;
  std::string config_note_, folder_note_;
  std::string config_text_;  // JSON
  std::optional<Config> config_;
  std::vector<SavedCheckpoint> checkpoints_;
  std::vector<std::pair<std::string, std::uint64_t>> files_;  // name, bytes
  std::vector<std::pair<std::string, std::string>> samples_;  // file, text
  std::chrono::steady_clock::time_point listed_{};
  std::uint64_t generation_, version_ = 0, config_version_ = 0, folder_version_ = 0,
                             layout_version_ = 0;
};

}  // namespace trireme
