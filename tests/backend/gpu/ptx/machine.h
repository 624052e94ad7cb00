// The state of the processor: warps of 32 lanes with registers, blocks with shared memory. An
// instruction is decoded once (decode.h) and runs for all lanes of a warp at a time.
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
using Mask = std::uint32_t;  // one bit for each lane
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
  gather,   // the same, when all lanes that are to take part have come
  barrier,  // bar.sync of the block
  branch,   // to `target`
  table,    // to one of `targets`, by a register
  leave     // ret and exit
};

struct Instruction {
  Run run = nullptr;
  Flow flow = Flow::next;
  bool guard_negated = false;
  std::uint8_t count = 1;     // elements of a vector
  bool wide_address = true;   // in a 64-bit register
  std::int32_t guard = -1;    // slot of the predicate; -1: none
  std::int32_t target = 0;    // of a branch
  std::int32_t members = -1;  // slot of a gather's lanes; -1: all of the warp
  std::int32_t line = 0;
  std::int64_t number = 0;  // offset of an address, a count, a kind: as `run` wants it
  std::array<std::uint32_t, 16> at = {};  // slots of the operands: bytes from the first register
  std::vector<std::int32_t> targets;
};

struct Program {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::string> texts;  // of the instructions
  std::uint32_t register_bytes = 0;
  // Slots that hold something from the start.
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
  std::array<std::int32_t, specials> special_slots;  // -1: not read
  std::vector<std::int64_t> parameter_sizes, parameter_offsets;
  std::int64_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;
  int most_threads = 1024;
};

// What is wrong, before it is known where.
struct Fault : std::runtime_error {
  Fault(int faulty, const std::string& what) : std::runtime_error(what), lane(faulty) {}
  int lane;
};

// A cp.async that has not arrived.
struct LateCopy {
  int lane;
  std::uint32_t group;
  std::uint64_t to, from;
  std::uint32_t bytes, read;  // the rest is zeros
  std::int32_t line;
};

struct Block;

struct Warp {
  std::byte* registers = nullptr;
  Block* block = nullptr;
  int index = 0;
  Mask active = 0;  // for which the instruction runs
  Mask live = 0;    // that have not left

  // Lanes that resume from one place. The first runs; the others wait for it to come by.
  struct Group {
    int place;
    Mask mask;
    bool stuck;  // at a gather, until others come
  };
  std::vector<Group> groups;
  bool at_barrier = false;

  std::vector<LateCopy> copies;
  std::array<std::uint32_t, lanes> committed = {};  // groups of copies, by lane

  template <class T>
  T* slot(std::uint32_t at) {
    return reinterpret_cast<T*>(registers + at);
  }
};

// Who used the two bytes last: a race is an access of two warps without a barrier between.
struct SharedUse {
  std::uint32_t epoch = 0;
  std::int32_t writer = -1;
  Mask readers = 0;
};

// What a launch has in common.
struct Launch {
  const Program* program = nullptr;
  Dims grid, threads;
  std::int64_t shared_bytes = 0;  // static and dynamic
  std::vector<std::byte> parameters;
  std::uint64_t order = 0;  // in which warps run, and when copies arrive: 0 is ascending, and late
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

// Addresses of shared memory begin here, so that 0 is none; generic addresses add a window.
inline constexpr std::uint64_t shared_base = 1024;
inline constexpr std::uint64_t shared_window = std::uint64_t{1} << 56;
inline constexpr std::uint64_t local_window = std::uint64_t{2} << 56;
inline constexpr std::uint64_t parameter_window = std::uint64_t{3} << 56;

}  // namespace trireme::ptx
