// metrics.jsonl: one JSON object per line, numbers with full precision, safe against kill -9.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/file.h"

namespace trireme {

// A named value of a line. Floating-point values round-trip to the same bits; non-finite ones are
// written as null, since JSON cannot represent them.
struct Metric {
  std::string_view name;
  std::variant<std::int64_t, double, std::string_view> value;
};

class MetricsFile {
 public:
  // Opens `path` to append, or creates it. First durably removes lines with a step above
  // `last_step` and torn or malformed lines: the steps after the last checkpoint are computed again
  // and must not appear twice. A new run passes 0.
  MetricsFile(const fs::path& path, std::int64_t last_step);

  // Appends {"step": step, metrics...} with one system call, so that a process that is killed
  // leaves at most one torn line. fail() on a full disk.
  void write(std::int64_t step, std::span<const Metric> metrics);

  // Makes all lines durable. Call before a checkpoint of step S is committed, so that a resume from
  // it finds every line up to S even after a power loss.
  void sync() { file_.sync(); }

 private:
  File file_;
};

// Whether a line of a file has this step and this metric; false if it cannot be read.
bool has_metric(const fs::path& path, std::int64_t step, std::string_view name);

// Formats a line as text, without the newline.
std::string metrics_line(std::int64_t step, std::span<const Metric> metrics);

}  // namespace trireme
