// A wire that answers each receive with the send of the same number.
#include "comm/mirror.h"

#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "base/error.h"
#include "comm/group.h"

namespace trireme {
namespace {

class MirrorWire final : public Wire {
 public:
  explicit MirrorWire(const Place& place) : place_(place) {}

  const Place& place() const override { return place_; }
  Context open_context(const std::vector<int>&, int) override { return ++contexts_; }

  Request send(const void* data, std::size_t bytes, int, Context context, int tag) override {
    std::deque<std::uint64_t>& line = lines_[{context, tag}];
    if (line.empty()) return {0};
    const Heard& heard = receives_[line.front()];
    if (heard.bytes == bytes && bytes > 0) std::memmove(heard.data, data, bytes);
    line.pop_front();
    return {0};
  }

  Request receive(void* data, std::size_t bytes, int, Context context, int tag) override {
    receives_[++number_] = {data, bytes, {context, tag}, false};
    lines_[{context, tag}].push_back(number_);
    return {number_};
  }

  // Receives complete only at their second test, because the sends of the same round of an
  // operation come after its receives.
  bool test(Request& request) override {
    if (request.bits == 0) return true;
    Heard& heard = receives_.at(request.bits);
    if (!std::exchange(heard.tested, true)) return false;
    std::erase(lines_[heard.line], request.bits);
    receives_.erase(request.bits);
    return true;
  }

  void send_control(const ControlMessage&, int) override {}
  bool receive_control(ControlMessage&, int&) override { return false; }
  [[noreturn]] void abort(int exit_code) override {
    throw JobEnded(static_cast<ExitCode>(exit_code));
  }

 private:
  struct Heard {
    void* data;
    std::size_t bytes;
    std::pair<Context, int> line;
    bool tested;
  };
  Place place_;
  Context contexts_ = 0;
  std::uint64_t number_ = 0;
  std::map<std::uint64_t, Heard> receives_;
  std::map<std::pair<Context, int>, std::deque<std::uint64_t>> lines_;  // receives, by number
};

}  // namespace

std::unique_ptr<Transport> make_mirror_transport(const Place& place) {
  return make_wire_transport(std::make_unique<MirrorWire>(place), {});
}

}  // namespace trireme
