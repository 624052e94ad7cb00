// Registration of the trace that is being recorded: its writers are stopped before it is destroyed,
// however the run ends.
#pragma once

#include <functional>
#include <string>

#include "parallel/trace.h"

namespace trireme {

class ActiveTrace {
 public:
  // `attach` gives the trace to all that write into it, and takes it away again with null. It is
  // called here and in the destructor, so that an error that ends a traced step finds no one
  // writing into memory that is gone.
  using Attach = std::function<void(Trace*)>;
  ActiveTrace(int rank, Attach attach) : trace_(rank), attach_(std::move(attach)) {
    attach_(&trace_);
  }
  ~ActiveTrace() { attach_(nullptr); }
  ActiveTrace(const ActiveTrace&) = delete;
  ActiveTrace& operator=(const ActiveTrace&) = delete;

  // Ends it, with what is under way.
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
