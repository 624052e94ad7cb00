// Formats events as JSON.
#include "parallel/trace.h"

#include <fmt/format.h>

#include <map>

namespace trireme {
namespace {

double microseconds(OperationListener::Time time) {
  return std::chrono::duration<double, std::micro>(time.time_since_epoch()).count();
}

}  // namespace

void Trace::computed(const char* name, int chunk, std::int64_t micro_batch, Time begin, Time end) {
  const std::lock_guard lock(mutex_);
  events_.push_back({micro_batch < 0 ? std::string(name) : fmt::format("{} {}", name, micro_batch),
                     fmt::format("compute, chunk {}", chunk), begin, end});
}

void Trace::holds(const char* what, std::int64_t bytes, Time at) {
  const std::lock_guard lock(mutex_);
  held_.push_back({what, bytes, at});
}

std::vector<Trace::Held> Trace::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void Trace::completed(const std::string& group, const Label& label, std::int64_t sent_bytes,
                      Time begin, Time end) {
  const std::lock_guard lock(mutex_);
  events_.push_back({label.text(), "communicate, " + group, begin, end, sent_bytes});
}

std::string Trace::json() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int> lanes;
  for (const Event& event : events_) lanes.emplace(event.lane, 0);
  std::string text = fmt::format(
      R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"rank {}"}}}})", rank_, rank_);
  int next = 0;
  for (auto& [lane, thread] : lanes) {
    thread = next++;
    text += fmt::format(
        ",\n"
        R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        rank_, thread, lane);
  }
  for (const Event& event : events_) {
    text += fmt::format(
        ",\n"
        R"({{"name":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})",
        event.name, rank_, lanes[event.lane], microseconds(event.begin),
        microseconds(event.end) - microseconds(event.begin),
        event.sent_bytes < 0 ? ""
                             : fmt::format(R"(,"args":{{"sent bytes":{}}})", event.sent_bytes));
  }
  for (const Held& held : held_) {
    text += fmt::format(
        ",\n"
        R"({{"name":"{}","ph":"C","pid":{},"ts":{:.3f},"args":{{"bytes":{}}}}})",
        held.what, rank_, microseconds(held.at), held.bytes);
  }
  return text;
}

}  // namespace trireme
