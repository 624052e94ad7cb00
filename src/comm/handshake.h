// Handshake between every two ranks before MPI starts, to find ranks that cannot reach each other:
// MPI's own initialization would hang forever.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport.h"

namespace trireme {

class Wire;

// One rank's view of the job.
struct Reach {
  int rank = 0;                           // rank of the view's owner
  std::vector<std::string> hosts;         // by rank; "" if not heard from
  std::vector<std::pair<int, int>> dead;  // pairs in which one does not hear the other, in order
  // Whether this rank reports: it does unless a rank that it hears has heard from more ranks, or a
  // lower rank from as many.
  bool reports = true;

  int heard() const;  // number of ranks heard from, itself included
  // Returns whether it hears most of the job; of two halves, the one with rank 0 counts as most.
  bool hears_most() const;
};

// Larger jobs skip the handshake: a socket per other rank would exceed the limit on open files.
inline constexpr int largest_handshake = 768;

// A rank's handshake. Its messages may still arrive after it ends, so they
// live as long as the wire.
class Handshake {
 public:
  // Uses half of `limit_s` for the handshake and half for exchanging whom each rank has heard from.
  // Returns as soon as every answer has arrived.
  Handshake(Wire& wire, double limit_s);
  ~Handshake();

  const Reach& reach() const { return reach_; }
  // Keeps answering for this long unless the job ends before: others may still need its messages.
  void serve(double seconds);

 private:
  class Round;
  void poll();
  std::unique_ptr<Round> hosts_round_, reach_round_;
  Reach reach_;
};

// open_transport() after a handshake of all ranks. If some ranks cannot reach each other, the job
// ends within options.timeout_s (exit code 1). Before that, `unreached` is called on the reporting
// rank, and on one rank of each part if the job is partitioned.
std::unique_ptr<Transport> open_transport_after_handshake(
    const TransportOptions& options, const std::function<void(const Reach&)>& unreached);

}  // namespace trireme
