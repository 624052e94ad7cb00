// Creates the store for a location, and the recording store of plans.
#include "parallel/states/transfer_store.h"

#include <optional>
#include <utility>

#include "backend/recording/device.h"
#include "base/error.h"
#include "parallel/states/host_store.h"
#include "parallel/states/transfer_file.h"

namespace trireme {
namespace {

using Kind = RecordedWork::Kind;

// Records transfers. The host waits for transfers of files; transfers of host memory are
// asynchronous operations, like messages.
class RecordedStore final : public TransferStore {
 public:
  RecordedStore(const TransferUse& use, RecordingDevice& device, OffloadPlace place,
                std::int64_t bytes)
      : use_(use), record_(device.record()), in_file_(place == OffloadPlace::file) {
    if (!in_file_) memory_.emplace(device, bytes, use.what);  // counted like a run's memory
  }

  Ticket read(std::vector<Piece> pieces, std::int64_t) override {
    return add(Kind::load, in_file_ ? use_.from_file : use_.from_host, pieces);
  }
  Ticket write(std::vector<Piece> pieces, std::int64_t) override {
    return add(Kind::store, in_file_ ? use_.to_file : use_.to_host, pieces);
  }
  // Transfers of an earlier record are complete: its tickets are meaningless in this one.
  void wait(Ticket ticket) override {
    if (ticket > 0 && ticket >> 32 == record_.cleared())
      record_.add_wait(static_cast<std::int32_t>(ticket & 0xffffffff) - 1);
  }
  void wait_for_all() override {
    for (Ticket& last : last_) wait(std::exchange(last, 0));
  }
  void finish() override {}
  void read_now(std::int64_t, std::int64_t,
                const std::function<void(const std::byte*)>&) const override {}
  void write_now(std::int64_t, std::int64_t, const std::function<void(std::byte*)>&) override {}
  void settle() override {}

 private:
  Ticket add(Kind kind, const char* name, const std::vector<Piece>& pieces) {
    RecordedWork work{.kind = kind, .name = name};
    for (const Piece& piece : pieces) work.bytes += static_cast<double>(piece.bytes);
    if (in_file_) {
      record_.add(work);
      return 0;
    }
    Ticket& last = last_[kind == Kind::load ? 0 : 1];
    const auto number = static_cast<Ticket>(record_.add_operation(work));
    last = Ticket{record_.cleared()} << 32 | (number + 1);
    return last;
  }

  TransferUse use_;
  Record& record_;
  bool in_file_;
  std::optional<HostBlock> memory_;
  Ticket last_[2] = {};  // read, written; 0: waited for
};

}  // namespace

std::unique_ptr<TransferStore> make_store(const TransferUse& use, Device& device,
                                          const OffloadOptions& where, std::int64_t bytes) {
  TRIREME_CHECK(where.elsewhere());
  if (bytes == 0) return nullptr;
  if (auto* const recording = dynamic_cast<RecordingDevice*>(&device))
    return std::make_unique<RecordedStore>(use, *recording, where.place, bytes);
  if (where.place == OffloadPlace::host) return std::make_unique<HostStore>(use, device, bytes);
  return std::make_unique<TransferFile>(use, where.folder, bytes, where.timeout_s);
}

}  // namespace trireme
