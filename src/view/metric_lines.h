// Follows a run's growing metrics.jsonl and timings.jsonl: one series per name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "view/followed_file.h"
#include "view/series_json.h"

namespace trireme {

// An event at a step.
struct Incident {
  std::int64_t step = 0;
  std::string what;
  std::uint64_t version = 0;  // of the refresh that read it
};

class MetricLines {
 public:
  explicit MetricLines(const fs::path& path);
  ~MetricLines();
  MetricLines(MetricLines&&) noexcept;

  // Reads new lines, about `budget` bytes at most; new points get `version`. Returns true if the
  // file was replaced and all points were discarded.
  bool refresh(std::uint64_t version, std::size_t budget);

  const SeriesByName& series() const { return series_; }
  // The first non-finite losses and skipped steps.
  const std::vector<Incident>& incidents() const { return incidents_; }
  std::vector<std::string> notes() const;
  bool is_there() const { return file_.is_there(); }
  bool is_whole() const { return whole_; }  // false: stopped at the budget

 private:
  struct Parser;

  void add_line(std::string_view line, std::uint64_t version);
  void add_value(std::string_view name, std::int64_t step, double value, std::uint64_t version);
  void note_incident(std::int64_t step, const std::string& what, std::uint64_t version);

  FollowedFile file_;
  std::unique_ptr<Parser> parser_;
  SeriesByName series_;
  std::vector<Incident> incidents_;
  std::int64_t step_ = -1;  // of the last good line
  double elapsed_ = 0, skipped_ = 0;
  std::int64_t damaged_ = 0, out_of_order_ = 0, nameless_ = 0;
  bool whole_ = true;
};

}  // namespace trireme
