// Executes warps step by step.
#include "backend/gpu/ptx/run.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "backend/gpu/ptx/lanes.h"

namespace trireme::ptx {
namespace {

// Lanes of a warp may diverge: those that are furthest behind run first, so that they reconverge
// with the others where their paths join.
class Stepper {
 public:
  Stepper(Warp& warp, const Program& program, Count& count)
      : w_(warp), program_(program), count_(count) {}

  // Runs until the warp waits at the block's barrier or all of its lanes have exited.
  void run() {
    while (!w_.groups.empty() && !w_.at_barrier) {
      choose();
      run_group();
    }
  }
  int place() const { return place_; }

 private:
  // Removes the group that is furthest behind from the waiting ones.
  void choose() {
    auto best = w_.groups.end();
    for (auto g = w_.groups.begin(); g != w_.groups.end(); ++g)
      if (!g->stuck && (best == w_.groups.end() || g->place < best->place)) best = g;
    if (best == w_.groups.end()) {
      place_ = w_.groups.front().place;
      throw Fault(std::countr_zero(w_.groups.front().mask),
                  "lanes wait for others that never come");
    }
    place_ = best->place, mask_ = best->mask;
    w_.groups.erase(best);
    look_ahead();
  }
  // Finds where the next group ahead waits: no group passes it.
  void look_ahead() {
    rendezvous_ = std::numeric_limits<int>::max();
    for (const auto& g : w_.groups)
      if (g.place >= place_) rendezvous_ = std::min(rendezvous_, g.place);
  }
  // Adds lanes to those that wait at a place.
  void park(int place, Mask mask, bool stuck) {
    for (auto& g : w_.groups) {
      if (g.place != place) continue;
      g.mask |= mask;
      g.stuck = stuck && g.stuck;
      return;
    }
    w_.groups.push_back({place, mask, stuck});
  }

  void run_group() {
    const Instruction* const code = program_.code.data();
    const int end = static_cast<int>(program_.code.size());
    for (;;) {
      if (place_ >= rendezvous_) {
        park(place_, mask_, false);
        return;
      }
      if (place_ >= end) throw Fault(std::countr_zero(mask_), "the end of the kernel's code");
      const Instruction& i = code[place_];
      Mask active = mask_;
      if (i.guard >= 0) {
        const Mask p = *w_.slot<Mask>(static_cast<std::uint32_t>(i.guard));
        active &= i.guard_negated ? ~p : p;
      }
      ++count_.warp_instructions;
      count_.thread_instructions += static_cast<unsigned>(std::popcount(active));
      if (i.flow == Flow::next) {
        if (active) {
          w_.active = active;
          i.run(w_, i);
        }
        ++place_;
      } else if (!control(i, active)) {
        return;
      }
    }
  }

  // Returns false if the group stops here.
  bool control(const Instruction& i, Mask active) {
    switch (i.flow) {
      case Flow::gather:
        return gather(i, active);
      case Flow::branch:
        return branch(i, active);
      case Flow::table:
        return branch_by_table(i, active);
      case Flow::barrier:
        return barrier(active);
      default:
        return leave(active);
    }
  }
  bool gather(const Instruction& i, Mask active) {
    if (active == 0) return ++place_, true;
    const Mask members =
        i.members < 0
            ? all_lanes
            : w_.slot<Mask>(static_cast<std::uint32_t>(i.members))[std::countr_zero(active)];
    // Exited lanes cannot arrive; the matrix units need all lanes.
    const Mask needed = i.members < 0 ? all_lanes : members & w_.live;
    if ((needed & ~active) != 0) {
      if (active != mask_) throw Fault(std::countr_zero(active), "some lanes pass by");
      park(place_, mask_, true);
      return false;
    }
    w_.active = active;
    i.run(w_, i);
    ++place_;
    return true;
  }
  bool branch(const Instruction& i, Mask active) {
    if (active == mask_) {
      const bool back = i.target <= place_;
      place_ = i.target;
      if (back) look_ahead();
      return true;
    }
    if (active == 0) {
      ++place_;
      return true;
    }
    park(i.target, active, false);
    park(place_ + 1, mask_ & ~active, false);
    return false;
  }
  bool branch_by_table(const Instruction& i, Mask active) {
    const auto* const index = w_.slot<std::uint32_t>(i.at[0]);
    w_.active = active;
    for_active(w_, [&](int l) {
      if (index[l] >= i.targets.size()) throw Fault(l, "a branch beyond its table");
      park(i.targets[index[l]], Mask{1} << l, false);
    });
    if (active != mask_) park(place_ + 1, mask_ & ~active, false);
    return false;
  }
  bool barrier(Mask active) {
    if (active != w_.live) {
      if (active == 0) return ++place_, true;
      if (active != mask_) throw Fault(std::countr_zero(active), "a barrier that lanes pass by");
      park(place_, mask_, true);
      return false;
    }
    park(place_ + 1, mask_, false);
    w_.at_barrier = true;
    return false;
  }
  bool leave(Mask active) {
    w_.live &= ~active;
    mask_ &= ~active;
    if (mask_ == 0) return false;
    ++place_;
    return true;
  }

  Warp& w_;
  const Program& program_;
  Count& count_;
  int place_ = 0, rendezvous_ = 0;
  Mask mask_ = 0;
};

// Block memory that is reused by the next block, and by the next launch.
struct Storage {
  std::vector<std::byte> registers, shared;
  std::vector<SharedUse> uses;
  std::uint32_t epoch = 1;
};

Storage& storage() {
  static thread_local Storage storage;
  return storage;
}

class Runner {
 public:
  explicit Runner(const Launch& launch) : launch_(launch), program_(*launch.program) {
    block_.launch = &launch;
    block_.warps.resize((launch.threads.count() + lanes - 1) / lanes);
    const std::size_t line = 64;
    const auto grow = [](auto& memory, std::size_t size) {
      if (memory.size() < size) memory.resize(size);
    };
    grow(storage_.registers, block_.warps.size() * program_.register_bytes + line);
    grow(storage_.shared, static_cast<std::size_t>(launch.shared_bytes) + line);
    grow(storage_.uses, static_cast<std::size_t>(launch.shared_bytes));
    block_.epoch = storage_.epoch;
    block_.uses = &storage_.uses;
    block_.shared = aligned(storage_.shared.data());
    std::byte* registers = aligned(storage_.registers.data());
    for (std::size_t i = 0; i < block_.warps.size(); ++i) {
      Warp& w = block_.warps[i];
      w.block = &block_;
      w.index = static_cast<int>(i);
      w.registers = registers;
      registers += program_.register_bytes;
      set_constants(w);
    }
    order_warps();
  }

  Count run() {
    for (block_.index.z = 0; block_.index.z < launch_.grid.z; ++block_.index.z)
      for (block_.index.y = 0; block_.index.y < launch_.grid.y; ++block_.index.y)
        for (block_.index.x = 0; block_.index.x < launch_.grid.x; ++block_.index.x) run_block();
    return count_;
  }

 private:
  static std::byte* aligned(std::byte* p) {
    return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(p) + 63) & ~63ull);
  }

  void order_warps() {
    order_.resize(block_.warps.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::uint64_t state = launch_.order;
    for (std::size_t i = order_.size(); state != 0 && i > 1; --i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(order_[i - 1], order_[(state >> 33) % i]);
    }
  }

  void set_constants(Warp& w) {
    for (const Program::Constant& c : program_.constants) {
      if (c.bytes == 0) *w.slot<Mask>(c.at) = static_cast<Mask>(c.value);
      for (int l = 0; l < lanes; ++l)
        std::memcpy(w.registers + c.at + l * c.bytes, &c.value, static_cast<std::size_t>(c.bytes));
    }
    const Dims &threads = launch_.threads, &grid = launch_.grid;
    for (unsigned l = 0; l < lanes; ++l) {
      const unsigned thread = static_cast<unsigned>(w.index) * lanes + l;
      set_special(w, Program::tid_x, l, thread % threads.x);
      set_special(w, Program::tid_y, l, thread / threads.x % threads.y);
      set_special(w, Program::tid_z, l, thread / threads.x / threads.y);
      set_special(w, Program::ntid_x, l, threads.x), set_special(w, Program::ntid_y, l, threads.y);
      set_special(w, Program::ntid_z, l, threads.z), set_special(w, Program::laneid, l, l);
      set_special(w, Program::nctaid_x, l, grid.x), set_special(w, Program::nctaid_y, l, grid.y);
      set_special(w, Program::nctaid_z, l, grid.z);
      set_special(w, Program::warpid, l, static_cast<unsigned>(w.index));
    }
  }
  void set_special(Warp& w, Program::Special special, unsigned lane, unsigned value) {
    const std::int32_t slot = program_.special_slots[special];
    if (slot >= 0) w.slot<std::uint32_t>(static_cast<std::uint32_t>(slot))[lane] = value;
  }

  void start_block() {
    std::memset(block_.shared, 0xff, static_cast<std::size_t>(launch_.shared_bytes));
    block_.local.assign(
        static_cast<std::size_t>(program_.local_bytes) * block_.warps.size() * lanes,
        std::byte{0xff});
    next_epoch();
    for (Warp& w : block_.warps) {
      const std::uint64_t first = static_cast<std::uint64_t>(w.index) * lanes;
      const std::uint64_t rest = launch_.threads.count() - first;
      w.live = rest >= lanes ? all_lanes : (Mask{1} << rest) - 1;
      w.groups.assign(1, {0, w.live, false});
      w.at_barrier = false;
      w.copies.clear();
      w.committed.fill(0);
      for (unsigned l = 0; l < lanes; ++l) {
        set_special(w, Program::ctaid_x, l, block_.index.x);
        set_special(w, Program::ctaid_y, l, block_.index.y);
        set_special(w, Program::ctaid_z, l, block_.index.z);
      }
    }
  }

  void run_block() {
    start_block();
    for (bool waiting = true; waiting;) {
      for (const std::size_t i : order_) run_warp(block_.warps[i]);
      waiting = pass_barrier();
    }
  }
  void run_warp(Warp& w) {
    Stepper stepper(w, program_, count_);
    try {
      stepper.run();
    } catch (const Fault& fault) {
      report(w, stepper.place(), fault);
    }
  }
  // Returns false if all threads have exited.
  bool pass_barrier() {
    int place = -1;
    for (Warp& w : block_.warps) {
      if (!w.at_barrier) continue;
      if (place >= 0 && w.groups.front().place != place)
        report(w, w.groups.front().place - 1,
               Fault(std::countr_zero(w.live), "other warps wait at another barrier"));
      place = w.groups.front().place;
      w.at_barrier = false;
    }
    next_epoch();
    return place >= 0;
  }
  void next_epoch() { block_.epoch = ++storage_.epoch; }

  [[noreturn]] void report(const Warp& w, int place, const Fault& fault) const {
    const auto at = std::min(static_cast<std::size_t>(place), program_.code.size() - 1);
    const auto number = [](unsigned n) { return std::to_string(n); };
    throw std::runtime_error(std::string(fault.what()) + ": kernel " + program_.name + ", block (" +
                             number(block_.index.x) + ", " + number(block_.index.y) + ", " +
                             number(block_.index.z) + "), thread " +
                             std::to_string(w.index * lanes + fault.lane) + ", PTX line " +
                             std::to_string(program_.code[at].line) + ": " + program_.texts[at]);
  }

  const Launch& launch_;
  const Program& program_;
  Storage& storage_ = storage();
  Block block_;
  std::vector<std::size_t> order_;
  Count count_;
};

}  // namespace

Count run(const Launch& launch) {
  return Runner(launch).run();
}

}  // namespace trireme::ptx
