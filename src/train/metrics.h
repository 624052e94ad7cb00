// metrics.jsonl: one JSON object per line, numbers with full precision, safe against kill -9.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/file.h"

namespace trireme {

// A named value of a line. Floating-point values read back to the same bits; those that are not
// finite are written as null, since JSON knows no others.
struct Metric {
  std::string_view name;
  std::variant<std::int64_t, double, std::string_view> value;
};

class MetricsFile {
 public:
  // Continues `path`, or starts it. Lines with a step above `last_step` and lines that are torn or
  // not metrics are removed durably first: the steps after the last checkpoint are computed again,
  // and must not appear twice. A new run passes 0.
  MetricsFile(const fs::path& path, std::int64_t last_step);

  // Appends {"step": step, metrics...} with one system call, so that a process that is killed
  // leaves at most one torn line. fail() on a full disk.
  void write(std::int64_t step, std::span<const Metric> metrics);

  // Makes all lines durable. Before a checkpoint of step S is committed, so that a resume from it
  // finds every line up to S even after a power loss.
  void sync() { file_.sync(); }

 private:
  File file_;
};

// The line as text, without its end.
std::string metrics_line(std::int64_t step, std::span<const Metric> metrics);

}  // namespace trireme
