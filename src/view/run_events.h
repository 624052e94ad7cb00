// Events of a run, parsed from its log: starts and restarts, saves, skipped steps, stops, warnings,
// errors.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "view/followed_file.h"

namespace trireme {

struct RunEvent {
  enum class Kind { start, restart, save, skip, stop, warning, error };
  Kind kind = Kind::start;
  std::string time;        // time of day from the log; "" if it has none
  std::int64_t step = -1;  // -1: the line names none
  std::string text;
  std::uint64_t version = 0;  // of the refresh that read it

  const char* name() const;
};

class RunEvents {
 public:
  explicit RunEvents(const fs::path& log) : file_(log) {}

  // Returns true if the log was replaced.
  bool refresh(std::uint64_t version, std::size_t budget);

  // The newest events; each repetition of a warning is a separate one.
  const std::deque<RunEvent>& events() const { return events_; }
  std::int64_t starts() const { return starts_; }
  std::int64_t forgotten() const { return forgotten_; }
  std::string fault() const { return file_.fault(); }

 private:
  void add_line(std::string_view line, std::uint64_t version);

  FollowedFile file_;
  std::deque<RunEvent> events_;
  std::int64_t starts_ = 0, forgotten_ = 0;
};

}  // namespace trireme
