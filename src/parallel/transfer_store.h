// Offload storage for a step's data, outside of the memory that it computes in: read ahead and
// written behind while it computes. A file, or for a GPU the memory of its host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/choices.h"
#include "parallel/trace.h"

namespace trireme {

class Device;

// Location of offloaded data; none: the memory of the device.
struct OffloadOptions {
  OffloadPlace place = OffloadPlace::none;
  std::string folder;      // of a file
  double timeout_s = 600;  // of one transfer from or to it

  bool elsewhere() const { return place != OffloadPlace::none; }
};

// Purpose of a store, as messages, traces and records name it: literals.
struct TransferUse {
  const char* what;            // "the optimizer's states"
  const char* instead;         // advice if there is no space: "choose a folder on another disk"
  const char *reads, *writes;  // of a transfer: "read states"
  const char *from_file, *to_file;  // "states from the file"
  const char *from_host, *to_host;
};

class TransferStore {
 public:
  // Transfers are multiples of this: their place in the store, in memory, and their size.
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
  // Work enqueued on the compute queue from now on runs after the transfer. 0: nothing to wait for.
  // Fails with the error of this transfer or of an earlier one.
  virtual void wait(Ticket ticket) = 0;
  virtual void wait_for_all() = 0;

  // For checkpoints: returns when nothing is under way.
  virtual void finish() = 0;
  // Reads any range immediately; safe from several threads.
  virtual void read_now(std::int64_t offset, std::int64_t bytes,
                        const std::function<void(const std::byte* host)>& use) const = 0;
  virtual void write_now(std::int64_t offset, std::int64_t bytes,
                         const std::function<void(std::byte* host)>& fill) = 0;
  // Called after read_now() and write_now(), before transfers continue.
  virtual void settle() = 0;

  // Records transfers, where the host sees them; null: nothing. Must outlive the store, or be taken
  // away: what is under way belongs to the one before. Throws nothing.
  virtual void set_trace(Trace*) {}
};

// A store of this many bytes, 0 from the beginning; null if that is none. On a recording device
// transfers are recorded.
std::unique_ptr<TransferStore> make_store(const TransferUse& use, Device& device,
                                          const OffloadOptions& where, std::int64_t bytes);

}  // namespace trireme
