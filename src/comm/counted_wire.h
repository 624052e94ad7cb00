// A wire that counts what this rank sends over an underlying wire; tests use it to measure the
// traffic of start-up on thousands of ranks.
#pragma once

#include <memory>
#include <utility>

#include "comm/wire.h"

namespace trireme {

class CountedWire final : public Wire {
 public:
  explicit CountedWire(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}

  const SentMessages& sent() const { return sent_; }

  const Place& place() const override { return wire_->place(); }
  std::vector<std::string> hosts() const override { return wire_->hosts(); }
  Context open_context(const std::vector<int>& world_ranks, int key) override {
    ++sent_.groups;
    return wire_->open_context(world_ranks, key);
  }
  Request send(const void* data, std::size_t bytes, int peer, Context context, int tag) override {
    ++sent_.messages;
    sent_.bytes += static_cast<std::int64_t>(bytes);
    return wire_->send(data, bytes, peer, context, tag);
  }
  Request receive(void* data, std::size_t bytes, int peer, Context context, int tag) override {
    return wire_->receive(data, bytes, peer, context, tag);
  }
  bool test(Request& request) override { return wire_->test(request); }
  void send_control(const ControlMessage& message, int peer) override {
    wire_->send_control(message, peer);
  }
  bool receive_control(ControlMessage& message, int& peer) override {
    return wire_->receive_control(message, peer);
  }
  void leave() override { wire_->leave(); }
  void set_exit_code(int code) override { wire_->set_exit_code(code); }
  [[noreturn]] void abort(int exit_code) override {
    wire_->abort(exit_code);
    throw JobEnded(static_cast<ExitCode>(exit_code));
  }

 private:
  std::unique_ptr<Wire> wire_;
  SentMessages sent_;
};

}  // namespace trireme
