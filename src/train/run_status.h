// status.json in a run's folder: how far the run is and how it ended, for scripts that start it
// again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace trireme {

struct RunStatus {
  // running; done (all steps); stopped (as planned: exit_interval, exit_duration_minutes);
  // interrupted (by a signal); failed.
  std::string state = "running";
  std::int64_t step = 0;           // done
  std::int64_t steps = 0;          // of the whole run
  std::int64_t saved = 0;          // step of the newest checkpoint; 0: none
  std::string reason;              // why it stopped or failed
  std::int64_t ranks = 1;          // of its newest start
  std::int64_t saved_locally = 0;  // step of the newest local checkpoint of all ranks; 0: none
};

// One JSON object: the above, the process that wrote it and when.
std::string to_json(const RunStatus& status);

// Parses such a text; nothing if it is not an object. A value that is absent or of another type is
// 0 or "".
std::optional<RunStatus> parse_status(const std::string& text);

// Process and time of such a text.
struct StatusWriter {
  std::string host, updated;  // "2026-01-31T12:00:00Z"
  std::int64_t pid = 0;

  bool operator==(const StatusWriter&) const = default;
  bool is_this_process() const;
  double age_s() const;  // since then, by the clock of this machine; infinite if it has no time
};
std::optional<StatusWriter> parse_status_writer(const std::string& text);

// Replaces the file as a whole. `durable`: synced too.
void write_status(const fs::path& path, const RunStatus& status, bool durable);

// Changes a status that still says "running" to failed, for this reason. For a process that
// survives a run that ended without a message; does nothing if there is no such file.
void mark_failed(const fs::path& run_folder, const std::string& reason);

}  // namespace trireme
