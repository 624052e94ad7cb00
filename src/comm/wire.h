// Network interface of the engine: non-blocking messages between ranks. MPI is one wire, ranks that
// are threads of one process another (for tests).
//
// Nothing here waits, except where said. The caller makes one call at a time, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/transport.h"

namespace trireme {

// A small message next to the data, for failures and the watchdog: plain bytes.
struct ControlMessage {
  std::uint8_t kind;
  std::uint8_t question;  // see watchdog.cpp
  std::uint8_t arrived;
  std::uint8_t waiting;
  std::uint8_t busy;  // see Activity
  float seconds;
  std::uint64_t group;
  std::uint64_t index;
  std::uint64_t moved;
  char text[72];
};

class Wire {
 public:
  // A message under way; the wire knows what the bits mean.
  struct Request {
    std::uint64_t bits = 0;
  };
  // A space of messages that cannot mix with those of others.
  using Context = int;
  static constexpr Context world_context = 0;
  // Tags are in [0, max_tag]: what every MPI offers.
  static constexpr int max_tag = 32767;
  // No message is larger than this: MPI counts in int.
  static constexpr std::size_t max_bytes = std::size_t{1} << 30;

  virtual ~Wire() = default;

  virtual const Place& place() const = 0;
  // The host of each rank of the job. Here: one host has them all.
  virtual std::vector<std::string> hosts() const {
    return std::vector<std::string>(static_cast<std::size_t>(place().size), place().host);
  }

  // A context for these world ranks, in which peers are named by their position here. All members
  // call it at about the same time, and may wait for each other. `key` is the same on all members.
  // It lives as long as the wire: releasing it would need all members again, and a rank that fails
  // must not wait.
  virtual Context open_context(const std::vector<int>& world_ranks, int key) = 0;

  // Messages with equal (context, tag) between two ranks do not overtake each other. A receive
  // takes exactly `bytes`.
  virtual Request send(const void* data, std::size_t bytes, int peer, Context context, int tag) = 0;
  virtual Request receive(void* data, std::size_t bytes, int peer, Context context, int tag) = 0;
  // Whether the message is complete; if so the request is over.
  virtual bool test(Request& request) = 0;

  // Control messages travel apart from data; `peer` is a world rank.
  virtual void send_control(const ControlMessage& message, int peer) = 0;
  virtual bool receive_control(ControlMessage& message, int& peer) = 0;

  // All ranks are done: the wire may be taken down when it is destroyed. Without it the wire just
  // goes away, because other ranks may never come to the end.
  virtual void leave() {}
  // Exit code of this process if the wire hangs at exit.
  virtual void set_exit_code(int /*code*/) {}

  // Ends all processes of the job. A wire among threads throws JobEnded instead, here and from then
  // on everywhere.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

struct JobEnded : Error {
  explicit JobEnded(ExitCode code) : Error(code, "the job was ended") {}
};

}  // namespace trireme
