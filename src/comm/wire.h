// Network interface of the engine: non-blocking messages between ranks. Implemented over MPI and,
// for tests, between threads of one process.
//
// No call blocks unless noted. Calls must be serialized but may come from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/transport.h"

namespace trireme {

// A small message besides the data, for failures and the watchdog: plain bytes.
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
  // A message in progress; the bits are private to the wire.
  struct Request {
    std::uint64_t bits = 0;
  };
  // A separate message space, like an MPI communicator.
  using Context = int;
  static constexpr Context world_context = 0;
  // Tags are in [0, max_tag], the range every MPI supports.
  static constexpr int max_tag = 32767;
  // Maximum message size: MPI counts in int.
  static constexpr std::size_t max_bytes = std::size_t{1} << 30;

  virtual ~Wire() = default;

  virtual const Place& place() const = 0;
  // Host of each rank of the job. Default: all on one host.
  virtual std::vector<std::string> hosts() const {
    return std::vector<std::string>(static_cast<std::size_t>(place().size), place().host);
  }

  // Opens a context for these world ranks; peers are numbered by position here. All
  // members call it at about the same time with the same `key`, and may block for each
  // other. It lives as long as the wire: releasing it would involve all members, and a
  // failing rank must not wait.
  virtual Context open_context(const std::vector<int>& world_ranks, int key) = 0;

  // Messages with equal (context, tag) between two ranks do not overtake each other. A receive
  // takes exactly `bytes`.
  virtual Request send(const void* data, std::size_t bytes, int peer, Context context, int tag) = 0;
  virtual Request receive(void* data, std::size_t bytes, int peer, Context context, int tag) = 0;
  // Returns whether the message is complete; the request is then released.
  virtual bool test(Request& request) = 0;

  // Control messages are separate from data; `peer` is a world rank.
  virtual void send_control(const ControlMessage& message, int peer) = 0;
  virtual bool receive_control(ControlMessage& message, int& peer) = 0;

  // All ranks are done: the destructor may shut down the wire properly. Otherwise it just drops the
  // wire, since other ranks may never get there.
  virtual void leave() {}
  // Exit code of this process if the wire hangs at exit.
  virtual void set_exit_code(int /*code*/) {}

  // Ends all processes of the job. The wire between threads throws JobEnded instead, from
  // this and all later calls.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

struct JobEnded : Error {
  explicit JobEnded(ExitCode code) : Error(code, "the job was ended") {}
};

}  // namespace trireme
