// A file on local disk for what a step does not need in memory all the time, read ahead and written
// behind by threads while the step computes, past the page cache where the file system allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/trace.h"

namespace trireme {

class Device;

// Where what may be in a file is.
struct OffloadOptions {
  std::string folder;      // of the file; empty: it is in memory
  double timeout_s = 600;  // of one transfer
};

// What a file is for, as messages and traces name it: literals.
struct TransferUse {
  const char* what;     // "the optimizer's states"
  const char* instead;  // what helps where there is no space: "choose a folder on another disk"
  const char *reads, *writes;  // of a transfer: "read states"
};

class TransferFile {
 public:
  // What transfers are multiples of: their place in the file, in memory, and their size.
  static constexpr std::int64_t alignment = 4096;

  // Makes the file in a folder, which is created, and reserves its bytes: 0 from the beginning. It
  // has no name, so that nothing is left of it however the process ends. Fails, naming the folder,
  // where there is no space. A transfer that takes longer than `timeout_s` fails.
  TransferFile(const TransferUse& use, const std::string& folder, std::int64_t bytes,
               double timeout_s);
  ~TransferFile();

  // A range of the file and where it is in memory.
  struct Piece {
    std::byte* memory;
    std::int64_t offset, bytes;
  };
  using Ticket = std::uint64_t;
  // Start moving pieces, in the order of the calls but side by side; `index` names them in traces.
  Ticket read(std::vector<Piece> pieces, std::int64_t index);
  Ticket write(std::vector<Piece> pieces, std::int64_t index);
  // Returns when it is done; fails with what went wrong with it or with one before it.
  void wait(Ticket ticket);
  void wait_for_all();

  // Any range, at once and by way of the page cache, safe from several threads: for checkpoints.
  // Nothing else is under way.
  void read_now(std::byte* to, std::int64_t offset, std::int64_t bytes) const;
  void write_now(const std::byte* from, std::int64_t offset, std::int64_t bytes);
  // After the above: everything is on the disk, and the page cache holds none of it.
  void settle();

  // "past the page cache" or "through the page cache".
  bool is_direct() const;
  // Records transfers; null: nothing. Must outlive the file, or be taken away: what is under way
  // belongs to the one before. Throws nothing.
  void set_trace(Trace* trace);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the threads, which may outlive this in a stuck call
  double timeout_s_;
};

// Writes a transfer down where `device` records what it is told: a plan knows what passes through
// files. `name`: a literal.
void record_transfer(Device& device, bool reads, const char* name, std::int64_t bytes);

}  // namespace trireme
