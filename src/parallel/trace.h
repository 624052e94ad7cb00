// Recorder of a rank's computation and communication as a Chrome trace (the "Trace Event Format":
// about:tracing, Perfetto): one process per rank, separate lanes for computation and
// communication.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "backend/ranges.h"
#include "comm/transport.h"

namespace trireme {

class Trace : public OperationListener {
 public:
  explicit Trace(int rank) : rank_(rank) {}

  // `name`: a string literal; `chunk`: index among the rank's stages.
  void computed(const char* name, int chunk, std::int64_t micro_batch, Time begin, Time end);
  // Records that from `at` on the rank holds this many bytes of `what`, a string literal.
  void holds(const char* what, std::int64_t bytes, Time at);
  void completed(const std::string& group, const Label& label, std::int64_t sent_bytes, Time begin,
                 Time end) override;

  // Returns comma-separated JSON events, without the brackets of a complete file. Times count from
  // the machine's boot, so that traces of ranks on one machine are aligned.
  std::string json() const;

  // Calls of holds(), in order.
  struct Held {
    const char* what;
    std::int64_t bytes;
    Time at;
  };
  std::vector<Held> held() const;

 private:
  struct Event {
    std::string name, lane;
    Time begin, end;
    std::int64_t sent_bytes = -1;  // -1: not communication
  };
  int rank_;
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  std::vector<Held> held_;
};

// Records its own lifetime as computation, if there is a trace, and names it for profilers.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, const char* name, int chunk, std::int64_t micro_batch)
      : range_(ProfilerRange::Level::pass, name, micro_batch),
        trace_(trace),
        name_(name),
        chunk_(chunk),
        micro_batch_(micro_batch) {
    if (trace_) begin_ = std::chrono::steady_clock::now();
  }
  ~TraceSpan() {
    if (trace_)
      trace_->computed(name_, chunk_, micro_batch_, begin_, std::chrono::steady_clock::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const ProfilerRange range_;
  Trace* trace_;
  const char* name_;
  int chunk_;
  std::int64_t micro_batch_;
  Trace::Time begin_;
};

}  // namespace trireme
