// Registration of the active trace: its writers are detached before it is destroyed, however the
// run ends.
#pragma once

#include <functional>
#include <string>

#include "parallel/trace.h"

namespace trireme {

class ActiveTrace {
 public:
  // `attach` passes the trace to all its writers, or null to detach them. It is called by the
  // constructor and the destructor, so that no writer keeps a dangling pointer when an error ends a
  // traced step.
  using Attach = std::function<void(Trace*)>;
  ActiveTrace(int rank, Attach attach) : trace_(rank), attach_(std::move(attach)) {
    attach_(&trace_);
  }
  ~ActiveTrace() { attach_(nullptr); }
  ActiveTrace(const ActiveTrace&) = delete;
  ActiveTrace& operator=(const ActiveTrace&) = delete;

  // Ends the trace, including operations in flight.
  std::string json() {
    attach_(nullptr);
    return trace_.json();
  }
  std::vector<Trace::Held> held() const { return trace_.held(); }

 private:
  Trace trace_;
  Attach attach_;
};

}  // namespace trireme
