// A store in a file on local disk: threads read and write it during the step, bypassing the page
// cache where the file system allows it.
#pragma once

#include "parallel/states/transfer_store.h"

namespace trireme {

class TransferFile final : public TransferStore {
 public:
  // Creates the folder and an unnamed file of `bytes` zeros in it, reserving the space. The file
  // disappears however the process ends. Fails with the folder's name if there is not enough space.
  // A transfer that takes longer than `timeout_s` fails.
  TransferFile(const TransferUse& use, const std::string& folder, std::int64_t bytes,
               double timeout_s);
  ~TransferFile() override;

  Ticket read(std::vector<Piece> pieces, std::int64_t index) override;
  Ticket write(std::vector<Piece> pieces, std::int64_t index) override;
  // Blocks the host: the device keeps computing.
  void wait(Ticket ticket) override;
  void wait_for_all() override;
  void finish() override { wait_for_all(); }
  // Reads through the page cache.
  void read_now(std::int64_t offset, std::int64_t bytes,
                const std::function<void(const std::byte* host)>& use) const override;
  void write_now(std::int64_t offset, std::int64_t bytes,
                 const std::function<void(std::byte* host)>& fill) override;
  // Flushes everything to disk and drops it from the page cache.
  void settle() override;
  void set_trace(Trace* trace) override;

  // "past the page cache" or "through the page cache".
  bool is_direct() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with threads, which may outlive this in a stuck call
  double timeout_s_;
};

}  // namespace trireme
