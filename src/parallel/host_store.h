// The memory of a GPU's host as a store: two queues copy from and to it while others compute.
#pragma once

#include <map>

#include "backend/device.h"
#include "parallel/transfer_store.h"
#include "runtime/memory.h"

namespace trireme {

class HostStore final : public TransferStore {
 public:
  // Fails, naming what it is for, where the host has no such memory left.
  HostStore(const TransferUse& use, Device& device, std::int64_t bytes);

  Ticket read(std::vector<Piece> pieces, std::int64_t index) override;
  Ticket write(std::vector<Piece> pieces, std::int64_t index) override;
  void wait(Ticket ticket) override;
  void wait_for_all() override;
  void finish() override;
  void read_now(std::int64_t offset, std::int64_t bytes,
                const std::function<void(const std::byte* host)>& use) const override;
  void write_now(std::int64_t offset, std::int64_t bytes,
                 const std::function<void(std::byte* host)>& fill) override;
  void settle() override {}

 private:
  // Puts a queue behind what the compute queue holds.
  void follow(Queue& queue);
  Ticket end(Queue& queue, Event& last);

  Device& device_;
  HostBlock memory_;
  Event read_, written_;          // the last of each
  std::map<Ticket, Event> open_;  // not waited for yet
  Ticket next_ = 1;
};

}  // namespace trireme
