// Converts the intervals of a replay to trace events, one thread per lane.
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "plan/timing/replay.h"

namespace trireme {

std::string chrome_trace(const Replay& replay) {
  std::string text = "[";
  std::map<std::pair<int, std::string>, int> lanes;
  for (const TimedEvent& event : replay.events)
    lanes.emplace(std::pair{event.rank, event.lane}, static_cast<int>(lanes.size()));
  for (std::size_t p = 0; p < replay.ranks.size(); ++p) {
    text += fmt::format(
        R"({}{{"name":"process_name","ph":"M","pid":{},"args":{{"name":"rank of pp {}"}}}})",
        p == 0 ? "" : ",\n", p, p);
  }
  for (const auto& [lane, thread] : lanes) {
    text += fmt::format(
        ",\n"
        R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        lane.first, thread, lane.second);
  }
  for (const TimedEvent& event : replay.events) {
    text += fmt::format(
        ",\n"
        R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
        event.name, event.rank, lanes.at({event.rank, event.lane}), event.begin * 1e6,
        (event.end - event.begin) * 1e6);
  }
  return text + "]\n";
}

}  // namespace trireme
