// The state of the processor: warps of 32 lanes with registers, blocks with shared memory. An
// instruction is decoded once (decode.h) and runs for all lanes of a warp at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace trireme::ptx {

inline constexpr int lanes = 32;
using Mask = std::uint32_t;  // one bit per lane
inline constexpr Mask all_lanes = ~Mask{0};
inline bool has(Mask mask, int lane) {
  return mask >> lane & 1;
}

struct Dims {
  unsigned x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

struct Warp;
struct Instruction;
using Run = void (*)(Warp&, const Instruction&);

enum class Flow : std::uint8_t {
  next,     // runs for the lanes whose guard allows it
  gather,   // the same, once all participating lanes have arrived
  barrier,  // bar.sync of the block
  branch,   // to `target`
  table,    // to one of `targets`, selected by a register
  leave     // ret and exit
};

struct Instruction {
  Run run = nullptr;
  Flow flow = Flow::next;
  bool guard_negated = false;
  std::uint8_t count = 1;     // elements of a vector operand
  bool wide_address = true;   // address is in a 64-bit register
  std::int32_t guard = -1;    // slot of the guard predicate; -1: none
  std::int32_t target = 0;    // of a branch
  std::int32_t members = -1;  // slot of a gather's lane mask; -1: the full warp
  std::int32_t line = 0;
  std::int64_t number = 0;  // offset of an address, or a count or kind, depending on `run`
  std::array<std::uint32_t, 16> at = {};  // slots of the operands, as byte offsets into registers
  std::vector<std::int32_t> targets;
};

struct Program {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::string> texts;  // source texts of the instructions
  std::uint32_t register_bytes = 0;
  // Slots that are initialized at the start.
  struct Constant {
    std::uint32_t at;
    int bytes;
    std::uint64_t value;
  };
  std::vector<Constant> constants;
  enum Special {
    tid_x,
    tid_y,
    tid_z,
    ntid_x,
    ntid_y,
    ntid_z,
    ctaid_x,
    ctaid_y,
    ctaid_z,
    nctaid_x,
    nctaid_y,
    nctaid_z,
    laneid,
    warpid,
    specials
  };
  std::array<std::int32_t, specials> special_slots;  // -1: not used
  std::vector<std::int64_t> parameter_sizes, parameter_offsets;
  std::int64_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;
  int most_threads = 1024;
};

// An error whose location is not known yet.
struct Fault : std::runtime_error {
  Fault(int faulty, const std::string& what) : std::runtime_error(what), lane(faulty) {}
  int lane;
};

// A cp.async in flight.
struct LateCopy {
  int lane;
  std::uint32_t group;
  std::uint64_t to, from;
  std::uint32_t bytes, read;  // the rest is zero-filled
  std::int32_t line;
};

struct Block;

struct Warp {
  std::byte* registers = nullptr;
  Block* block = nullptr;
  int index = 0;
  Mask active = 0;  // lanes that run the instruction
  Mask live = 0;    // lanes that have not exited

  // Lanes that resume at one place. The first group runs; the others wait until it arrives there.
  struct Group {
    int place;
    Mask mask;
    bool stuck;  // at a gather, until other lanes arrive
  };
  std::vector<Group> groups;
  bool at_barrier = false;

  std::vector<LateCopy> copies;
  std::array<std::uint32_t, lanes> committed = {};  // groups of copies, per lane

  template <class T>
  T* slot(std::uint32_t at) {
    return reinterpret_cast<T*>(registers + at);
  }
};

// Last users of two bytes: a race is an access by two warps without a barrier in between.
struct SharedUse {
  std::uint32_t epoch = 0;
  std::int32_t writer = -1;
  Mask readers = 0;
};

// State shared by all blocks of a launch.
struct Launch {
  const Program* program = nullptr;
  Dims grid, threads;
  std::int64_t shared_bytes = 0;  // static and dynamic
  std::vector<std::byte> parameters;
  std::uint64_t order = 0;  // order of warps and of copy arrival: 0 is ascending, and late
};

struct Block {
  const Launch* launch = nullptr;
  Dims index;
  std::vector<Warp> warps;
  std::byte* shared = nullptr;
  std::vector<SharedUse>* uses = nullptr;
  std::uint32_t epoch = 1;  // counts barriers
  std::vector<std::byte> local;
};

// Shared memory starts at this address, so 0 is invalid; generic addresses add a window.
inline constexpr std::uint64_t shared_base = 1024;
inline constexpr std::uint64_t shared_window = std::uint64_t{1} << 56;
inline constexpr std::uint64_t local_window = std::uint64_t{2} << 56;
inline constexpr std::uint64_t parameter_window = std::uint64_t{3} << 56;

}  // namespace trireme::ptx
