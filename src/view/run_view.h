// A run's folder as the page shows it: all that is in it, read again where it has changed.
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

// A file that is read as a whole when it has changed.
class WatchedFile {
 public:
  explicit WatchedFile(fs::path path) : path_(std::move(path)) {}
  // True where it is not what it was: take a look at text().
  bool has_changed();
  // Nothing if there is no such file; throws Error if it cannot be read.
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
  std::int64_t time = 0;  // when it was complete, in seconds since 1970
};

// Contents of status.json.
struct RunStatusText {
  std::string json = "{}";  // the object, with the members that are known
  std::string note;
  bool running = false;
  int ranks = 0;  // 0: it does not say
};

class RunView {
 public:
  // `speed`: of the machine whose peak utilization is counted with, and which outlives this; null:
  // not known.
  explicit RunView(const fs::path& folder, const MachineSpeed* speed = nullptr);

  const fs::path& folder() const { return folder_; }
  // Reads what is new. What can be wrong with the files becomes a note; nothing throws.
  void refresh();

  // The changes for a page that has the reading `version` of this `generation`; everything, if it
  // has another generation. Members of a JSON object, without its brackets.
  std::string update(std::uint64_t generation, std::uint64_t version) const;

  // The configuration that layouts are drawn for; nothing if config.toml cannot be used.
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
