// Who reaches whom, before MPI's own start, which waits for ever where two ranks do not: every two
// ranks greet each other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport.h"

namespace trireme {

class Wire;

// What a rank knows of it.
struct Reach {
  int rank = 0;                           // its own
  std::vector<std::string> hosts;         // of all ranks; "" of one that it does not hear
  std::vector<std::pair<int, int>> dead;  // ranks of which one does not hear the other, in order
  // None that it hears has heard more ranks, and no earlier one as many: it speaks for them.
  bool reports = true;

  int heard() const;  // ranks, itself among them
  // Whether it hears most of the job; of two halves the one with rank 0 counts as that.
  bool hears_most() const;
};

// Larger jobs do not greet: a socket for each other rank would be more than a process may open.
inline constexpr int largest_handshake = 768;

// The handshake of a rank. What is under way when they end may still arrive: they live until the
// wire does not.
class Handshake {
 public:
  // Half of `limit_s` is for handshake, the other half for what each rank has heard. Returns at
  // once when all is heard.
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

// open_transport() for ranks that greet each other first. Where some do not reach each other, the
// job ends within options.timeout_s (exit code 1): `unreached` is called before that, in the rank
// that speaks, and where the job has fallen apart, in that of each part.
std::unique_ptr<Transport> open_transport_after_handshake(
    const TransportOptions& options, const std::function<void(const Reach&)>& unreached);

}  // namespace trireme
