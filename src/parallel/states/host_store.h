// A store in host memory of a GPU: two queues copy to and from it while others compute.
#pragma once

#include <map>

#include "backend/device.h"
#include "parallel/states/transfer_store.h"
#include "runtime/memory.h"

namespace trireme {

class HostStore final : public TransferStore {
 public:
  // Fails with the store's purpose in the message if the host is out of such memory.
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
  // Makes a queue wait for all work on the compute queue so far.
  void follow(Queue& queue);
  Ticket end(Queue& queue, Event& last);

  Device& device_;
  HostBlock memory_;
  Event read_, written_;          // of the last read and the last write
  std::map<Ticket, Event> open_;  // not yet waited for
  Ticket next_ = 1;
};

}  // namespace trireme
