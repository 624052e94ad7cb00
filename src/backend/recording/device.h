// A device that records its calls without allocating or computing anything:
// planning runs a real step on it.
#pragma once

#include <memory>

#include "backend/recording/record.h"

namespace trireme {

class RecordingDevice final : public Device {
 public:
  // Records for `target`, regardless of this machine.
  explicit RecordingDevice(const Target& target);

  const Record& record() const { return record_; }
  Record& record() { return record_; }

  std::string name() const override;
  std::string signature() const override { return "recording"; }
  const Target& target() const override { return target_; }
  bool computes() const override { return false; }
  Queue& queue(QueueRole) override { return *queue_; }
  std::shared_ptr<const LinearProduct> linear(DType, Product, const LinearShape&) override;
  std::shared_ptr<const LinearProduct> leaf_linear(DType compute, Product product,
                                                   const LinearShape& shape, bool) override {
    return linear(compute, product, shape);
  }
  std::shared_ptr<const GroupedProduct> grouped(DType, Product, const GroupedShape&) override;
  void write(void* dst, std::int64_t bytes,
             const std::function<void(std::byte* host)>& fill) override;
  void read(const void* src, std::int64_t bytes,
            const std::function<void(const std::byte* host)>& use) override;
  bool begin_once(const WorkKey& key) override { return record_.begin(key); }
  void end_once() override { record_.end(); }

 private:
  // Returns addresses that must not be dereferenced.
  std::byte* do_allocate(std::int64_t bytes) override;
  void do_release(std::byte*, std::int64_t) override {}

  Target target_;
  Record record_;
  std::unique_ptr<Queue> queue_;
  std::int64_t next_address_ = std::int64_t{1} << 20;
};

}  // namespace trireme
