// Offload storage for a step's data outside compute memory, prefetched and written back while the
// step computes: a file, or for a GPU its host memory.
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

// Location of offloaded data; none: device memory.
struct OffloadOptions {
  OffloadPlace place = OffloadPlace::none;
  std::string folder;      // of a file
  double timeout_s = 600;  // per transfer

  bool elsewhere() const { return place != OffloadPlace::none; }
};

// Purpose of a store in messages, traces and records: string literals.
struct TransferUse {
  const char* what;            // "the optimizer's states"
  const char* instead;         // advice if there is no space: "choose a folder on another disk"
  const char *reads, *writes;  // of a transfer: "read states"
  const char *from_file, *to_file;  // "states from the file"
  const char *from_host, *to_host;
};

class TransferStore {
 public:
  // Transfers are aligned to this: offsets in the store, addresses, and sizes.
  static constexpr std::int64_t alignment = 4096;

  virtual ~TransferStore() = default;

  // A range of the store and its address in device memory.
  struct Piece {
    std::byte* memory;
    std::int64_t offset, bytes;
  };
  using Ticket = std::uint64_t;
  // Start transfers of pieces after all work on the compute queue, concurrently but started in call
  // order; `index` names them in traces. A range may be written only after its reads have been
  // waited for; a range that is being written may be read.
  virtual Ticket read(std::vector<Piece> pieces, std::int64_t index) = 0;
  virtual Ticket write(std::vector<Piece> pieces, std::int64_t index) = 0;
  // Makes later work on the compute queue run after the transfer. Ticket 0: no wait. Fails with the
  // error of this transfer or of an earlier one.
  virtual void wait(Ticket ticket) = 0;
  virtual void wait_for_all() = 0;

  // For checkpoints: waits until no transfer is in flight.
  virtual void finish() = 0;
  // Reads any range immediately; thread-safe.
  virtual void read_now(std::int64_t offset, std::int64_t bytes,
                        const std::function<void(const std::byte* host)>& use) const = 0;
  virtual void write_now(std::int64_t offset, std::int64_t bytes,
                         const std::function<void(std::byte* host)>& fill) = 0;
  // Called after read_now() and write_now(), before transfers continue.
  virtual void settle() = 0;

  // Records transfers as the host sees them; null: no trace. The trace must outlive the store, or
  // be removed: transfers in flight still belong to the previous trace. Does not throw.
  virtual void set_trace(Trace*) {}
};

// Creates a store of this many bytes, initially 0; returns null for 0 bytes. On a recording device
// transfers are recorded.
std::unique_ptr<TransferStore> make_store(const TransferUse& use, Device& device,
                                          const OffloadOptions& where, std::int64_t bytes);

}  // namespace trireme
