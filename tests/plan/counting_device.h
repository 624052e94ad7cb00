// The CPU with a counter of all calls of its kernel tables: shows what a real run did,
// independently of the recorder.
#pragma once

#include <map>
#include <string>

#include "wrapped_device.h"

namespace trireme::testing_plan {

using Counts = std::map<std::string, std::int64_t>;

class CountingDevice final : public testing_device::WrappedDevice {
 public:
  void around(const char* name, const std::function<void()>& work) override {
    ++counts_[name];
    work();
  }

  Counts& counts() { return counts_; }
  std::int64_t mapped() const { return mapped_; }

 private:
  std::byte* do_allocate(std::int64_t bytes) override {
    mapped_ += bytes;
    return WrappedDevice::do_allocate(bytes);
  }
  void do_release(std::byte* memory, std::int64_t bytes) override {
    mapped_ -= bytes;
    WrappedDevice::do_release(memory, bytes);
  }

  Counts counts_;
  std::int64_t mapped_ = 0;
};

}  // namespace trireme::testing_plan
