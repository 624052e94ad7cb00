// Finds out which ranks reach each other before MPI starts, since MPI's own start hangs forever
// where two ranks do not: every two ranks exchange a handshake.
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
  int rank = 0;                           // its own
  std::vector<std::string> hosts;         // of all ranks; "" of one that it does not hear
  std::vector<std::pair<int, int>> dead;  // ranks of which one does not hear the other, in order
  // Whether this rank reports: no rank that it hears has heard more ranks, and no earlier one as
  // many.
  bool reports = true;

  int heard() const;  // ranks, itself among them
  // Whether it hears most of the job; of two halves the one with rank 0 counts as that.
  bool hears_most() const;
};

// Larger jobs skip the handshake: a socket per other rank would exceed the limit on open files.
inline constexpr int largest_handshake = 768;

// The handshake of a rank. What is under way when they end may still arrive: they live until the
// wire does not.
class Handshake {
 public:
  // Half of `limit_s` is for the handshake, the other half for exchanging whom each rank has heard.
  // Returns as soon as every answer is in.
  Handshake(Wire& wire, double limit_s);
  ~Handshake();

  const Reach& reach() const { return reach_; }
  // Until the job is ended: others may still need what this rank has sent.
  void serve(double seconds);

 private:
  class Round;
  void poll();
  std::unique_ptr<Round> hosts_round_, reach_round_;
  Reach reach_;
};

// open_transport() after a handshake of all ranks. If some do not reach each other, the job ends
// within options.timeout_s (exit code 1): `unreached` is called before that in the reporting rank,
// and in one rank of each part if the job has fallen apart.
std::unique_ptr<Transport> open_transport_after_handshake(
    const TransportOptions& options, const std::function<void(const Reach&)>& unreached);

}  // namespace trireme
