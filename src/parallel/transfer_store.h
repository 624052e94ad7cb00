// Where a step keeps what it does not need all the time, outside of the memory that it computes in:
// read ahead and written behind while it computes. A file, or for a GPU the memory of its host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/trace.h"

namespace trireme {

class Device;

enum class OffloadPlace : std::uint8_t { none, host, file };

// Where what may be offloaded is; none: in the memory of the device.
struct OffloadOptions {
  OffloadPlace place = OffloadPlace::none;
  std::string folder;      // of a file
  double timeout_s = 600;  // of one transfer from or to it

  bool elsewhere() const { return place != OffloadPlace::none; }
};

// What a store is for, as messages, traces and records name it: literals.
struct TransferUse {
  const char* what;     // "the optimizer's states"
  const char* instead;  // what helps where there is no space: "choose a folder on another disk"
  const char *reads, *writes;       // of a transfer: "read states"
  const char *from_file, *to_file;  // "states from the file"
  const char *from_host, *to_host;
};

class TransferStore {
 public:
  // What transfers are multiples of: their place in the store, in memory, and their size.
  static constexpr std::int64_t alignment = 4096;

  virtual ~TransferStore() = default;

  // A range of the store and where it is in the memory of the device.
  struct Piece {
    std::byte* memory;
    std::int64_t offset, bytes;
  };
  using Ticket = std::uint64_t;
  // Start moving pieces, when all has run that the compute queue holds, in the order of the calls
  // but side by side; `index` names them in traces. A range is written only when what was read of
  // it has been waited for; to read what is being written is allowed.
  virtual Ticket read(std::vector<Piece> pieces, std::int64_t index) = 0;
  virtual Ticket write(std::vector<Piece> pieces, std::int64_t index) = 0;
  // What the compute queue gets from now on runs when the transfer is over. 0: nothing to wait for.
  // Fails with what went wrong with it or with one before it.
  virtual void wait(Ticket ticket) = 0;
  virtual void wait_for_all() = 0;

  // For checkpoints: returns when nothing is under way.
  virtual void finish() = 0;
  // Then any range, at once, safe from several threads.
  virtual void read_now(std::int64_t offset, std::int64_t bytes,
                        const std::function<void(const std::byte* host)>& use) const = 0;
  virtual void write_now(std::int64_t offset, std::int64_t bytes,
                         const std::function<void(std::byte* host)>& fill) = 0;
  // After the above, before transfers go on.
  virtual void settle() = 0;

  // Records transfers, where the host sees them; null: nothing. Must outlive the store, or be taken
  // away: what is under way belongs to the one before. Throws nothing.
  virtual void set_trace(Trace*) {}
};

// Of so many bytes, 0 from the beginning; null where that is none. On a device that writes down
// what it is told, transfers are written down.
std::unique_ptr<TransferStore> make_store(const TransferUse& use, Device& device,
                                          const OffloadOptions& where, std::int64_t bytes);

}  // namespace trireme
