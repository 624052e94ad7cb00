// status.json in a run's folder: progress of the run and how it ended, for scripts that restart
// it.
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
  std::int64_t step = 0;           // completed steps
  std::int64_t steps = 0;          // of the whole run
  std::int64_t saved = 0;          // step of the newest checkpoint; 0: none
  std::string reason;              // why it stopped or failed
  std::int64_t ranks = 1;          // at the latest start
  std::int64_t saved_locally = 0;  // step of the newest local checkpoint of all ranks; 0: none
  std::int64_t copied = 0;         // step of the newest one with copies on other nodes; 0: none
};

// Serializes to one JSON object, with the process that wrote it and the time.
std::string to_json(const RunStatus& status);

// Parses to_json()'s text; empty if it is not an object. Missing values and values of another type
// become 0 or "".
std::optional<RunStatus> parse_status(const std::string& text);

// Process and time stored in to_json()'s text.
struct StatusWriter {
  std::string host, updated;  // "2026-01-31T12:00:00Z"
  std::int64_t pid = 0;

  bool operator==(const StatusWriter&) const = default;
  bool is_this_process() const;
  double age_s() const;  // by this machine's clock; infinite without a time
};
std::optional<StatusWriter> parse_status_writer(const std::string& text);

// Replaces the file atomically. `durable`: also synced.
void write_status(const fs::path& path, const RunStatus& status, bool durable);

// Changes a status that still says "running" to failed, with this reason. For a process that
// outlives a run that ended without a message; does nothing if there is no such file.
void mark_failed(const fs::path& run_folder, const std::string& reason);

}  // namespace trireme
