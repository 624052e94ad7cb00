// Opcodes of the pickle machine, except calls.
#include "formats/torch/pickle_machine.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

// Opcodes, with Python's names.
enum PickleCode : unsigned char {
  op_mark = '(',
  op_stop = '.',
  op_binfloat = 'G',
  op_binint = 'J',
  op_binint1 = 'K',
  op_binint2 = 'M',
  op_none = 'N',
  op_binpersid = 'Q',
  op_reduce = 'R',
  op_binstring = 'T',
  op_short_binstring = 'U',
  op_binunicode = 'X',
  op_binbytes = 'B',
  op_short_binbytes = 'C',
  op_append = 'a',
  op_build = 'b',
  op_global = 'c',
  op_dict = 'd',
  op_empty_dict = '}',
  op_appends = 'e',
  op_binget = 'h',
  op_long_binget = 'j',
  op_list = 'l',
  op_empty_list = ']',
  op_binput = 'q',
  op_long_binput = 'r',
  op_setitem = 's',
  op_tuple = 't',
  op_empty_tuple = ')',
  op_setitems = 'u',
  op_proto = 0x80,
  op_newobj = 0x81,
  op_tuple1 = 0x85,
  op_tuple2 = 0x86,
  op_tuple3 = 0x87,
  op_newtrue = 0x88,
  op_newfalse = 0x89,
  op_long1 = 0x8a,
  op_long4 = 0x8b,
  op_short_binunicode = 0x8c,
  op_binunicode8 = 0x8d,
  op_binbytes8 = 0x8e,
  op_empty_set = 0x8f,
  op_additems = 0x90,
  op_frozenset = 0x91,
  op_stack_global = 0x93,
  op_memoize = 0x94,
  op_frame = 0x95,
  op_bytearray8 = 0x96,
};

// Opcodes whose name makes the refusal more helpful.
const char* refused_operation(unsigned char code) {
  switch (code) {
    case 'i':
      return "INST, which makes an object";
    case 'o':
      return "OBJ, which makes an object";
    case 0x82:
    case 0x83:
    case 0x84:
      return "EXT, which asks for a registered class";
    case 0x92:
      return "NEWOBJ_EX, which makes an object";
    case 'P':
      return "PERSID";
    case 'S':
    case 'V':
    case 'I':
    case 'L':
    case 'F':
    case 'p':
    case 'g':
      return "an operation of protocol 0";
    case 0x97:
    case 0x98:
      return "a buffer outside of the file";
    default:
      return nullptr;
  }
}

constexpr int lowest_protocol = 2, highest_protocol = 5;
constexpr std::size_t longest_class_name = 256;
// Writers append to lists and dictionaries in batches of 1,000, and use one mark per open
// container.
constexpr std::size_t most_on_stack = std::size_t{1} << 20, most_marks = 1024;

}  // namespace

void PickleMachine::refuse(const std::string& what) const {
  fail_input("'{}': its pickle cannot be read near byte {}: {}", out_.name_, at_, what);
}

void PickleMachine::run() {
  if (text_.size() < 2 || static_cast<unsigned char>(text_[0]) != op_proto) {
    refuse("it does not begin with a protocol");
  }
  for (;;) {
    const unsigned char code = take_number<unsigned char>();
    if (code == op_stop) break;
    if (!step(code)) {
      const char* known = refused_operation(code);
      refuse(known ? fmt::format("it uses {}", known)
                   : fmt::format("0x{:02x} is not an operation of a pickle", code));
    }
  }
  if (stack_.size() != 1 || !marks_.empty()) refuse("values are left on the stack at its end");
  out_.root_ = stack_[0];
  out_.size_ = at_;
}

std::string_view PickleMachine::take(std::uint64_t bytes) {
  if (bytes > text_.size() - at_) refuse("it is cut off");
  if (at_ + bytes > limits_.bytes) {
    refuse(fmt::format("it is longer than the {} bytes that are allowed", limits_.bytes));
  }
  const std::string_view taken = text_.substr(at_, static_cast<std::size_t>(bytes));
  at_ += taken.size();
  return taken;
}

template <class T>
T PickleMachine::take_number() {
  T value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string_view PickleMachine::take_counted(int length_bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, take(static_cast<std::uint64_t>(length_bytes)).data(),
              static_cast<std::size_t>(length_bytes));
  return take(length);
}

std::string_view PickleMachine::take_line() {
  const std::size_t end = text_.substr(at_, longest_class_name + 1).find('\n');
  if (end == text_.npos) refuse("a name does not end");
  const std::string_view line = take(end);
  take(1);
  return line;
}

void PickleMachine::charge(std::size_t bytes) {
  charged_ += bytes;
  const std::uint64_t most = limits_.memory + limits_.memory_per_byte * at_;
  if (charged_ > most) {
    refuse(fmt::format("its values need more than the {} bytes that are allowed", most));
  }
}

void PickleMachine::push(PickleId id) {
  if (stack_.size() == most_on_stack)
    refuse(
        fmt::format("it leaves more than the {} values waiting that are allowed", most_on_stack));
  stack_.push_back(id);
}

PickleId PickleMachine::add(const PickleValue& value) {
  charge(sizeof value + sizeof(PickleId));  // plus its slot on the stack
  out_.values_.push_back(value);
  return static_cast<PickleId>(out_.values_.size() - 1);
}

PickleId PickleMachine::add_text(PickleKind kind, std::string_view text) {
  return add({.kind = kind, .text = text});
}

PickleId PickleMachine::add_integer(std::int64_t value, PickleKind kind) {
  return add({.kind = kind, .integer = value});
}

// Two's complement of any length, little-endian.
PickleId PickleMachine::add_long(std::string_view bytes) {
  if (bytes.size() > sizeof(std::int64_t)) return add_text(PickleKind::large, bytes);
  std::int64_t value = !bytes.empty() && (bytes.back() & 0x80) ? -1 : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return add_integer(value);
}

PickleId PickleMachine::add_real(std::string_view big_endian) {
  std::uint64_t bits;
  std::memcpy(&bits, big_endian.data(), sizeof bits);
  return add(
      {.kind = PickleKind::real, .integer = std::bit_cast<std::int64_t>(__builtin_bswap64(bits))});
}

PickleId PickleMachine::add_parent(PickleKind kind, std::vector<PickleId> children) {
  const auto at = static_cast<std::uint32_t>(out_.children_.size());
  charge(sizeof(std::vector<PickleId>));
  out_.children_.emplace_back();
  const PickleId id = add({.kind = kind, .at = at});
  enlarge(id, children);
  return id;
}

void PickleMachine::enlarge(PickleId parent, std::span<const PickleId> further) {
  charge(2 * further.size() * sizeof(PickleId));  // growing lists reserve space
  PickleValue& value = out_.values_[parent];
  for (const PickleId child : further) {
    value.depth = std::max(value.depth, static_cast<std::uint16_t>(this->value(child).depth + 1));
  }
  if (value.depth > limits_.depth) {
    refuse(fmt::format("it holds values more than {} deep within others", limits_.depth));
  }
  auto& children = out_.children_[value.at];
  children.insert(children.end(), further.begin(), further.end());
}

PickleId PickleMachine::top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("it pops from an empty stack");
  return stack_.back();
}

PickleId PickleMachine::pop() {
  const PickleId id = top();
  stack_.pop_back();
  return id;
}

std::vector<PickleId> PickleMachine::pop_count(std::size_t count) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < floor + count) refuse("it pops from an empty stack");
  std::vector<PickleId> taken(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return taken;
}

std::vector<PickleId> PickleMachine::pop_to_mark() {
  if (marks_.empty()) refuse("a MARK is missing");
  const std::size_t mark = marks_.back();
  std::vector<PickleId> taken(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
  stack_.resize(mark);
  marks_.pop_back();
  return taken;
}

bool PickleMachine::step(unsigned char code) {
  return step_constant(code) || step_memo(code) || step_container(code) || step_object(code);
}

bool PickleMachine::step_constant(unsigned char code) {
  switch (code) {
    case op_proto: {
      const int protocol = take_number<unsigned char>();
      if (protocol < lowest_protocol || protocol > highest_protocol) {
        refuse(fmt::format("it has protocol {}; {} to {} are read", protocol, lowest_protocol,
                           highest_protocol));
      }
      return true;
    }
    case op_frame:
      // A frame only tells how many bytes to read at once.
      take(sizeof(std::uint64_t));
      return true;
    case op_none:
      push(add({}));
      return true;
    case op_newtrue:
    case op_newfalse:
      push(add_integer(code == op_newtrue, PickleKind::boolean));
      return true;
    case op_binint:
      push(add_integer(take_number<std::int32_t>()));
      return true;
    case op_binint1:
      push(add_integer(take_number<std::uint8_t>()));
      return true;
    case op_binint2:
      push(add_integer(take_number<std::uint16_t>()));
      return true;
    case op_long1:
    case op_long4:
      push(add_long(take_counted(code == op_long1 ? 1 : 4)));
      return true;
    case op_binfloat:
      push(add_real(take(sizeof(double))));
      return true;
    case op_short_binunicode:
    case op_short_binstring:
      push(add_text(PickleKind::text, take_counted(1)));
      return true;
    case op_binunicode:
    case op_binstring:
      push(add_text(PickleKind::text, take_counted(4)));
      return true;
    case op_binunicode8:
      push(add_text(PickleKind::text, take_counted(8)));
      return true;
    case op_short_binbytes:
      push(add_text(PickleKind::bytes, take_counted(1)));
      return true;
    case op_binbytes:
      push(add_text(PickleKind::bytes, take_counted(4)));
      return true;
    case op_binbytes8:
    case op_bytearray8:
      push(add_text(PickleKind::bytes, take_counted(8)));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::step_container(unsigned char code) {
  switch (code) {
    case op_mark:
      if (marks_.size() == most_marks)
        refuse(fmt::format("it has more than the {} marks that are allowed", most_marks));
      marks_.push_back(stack_.size());
      return true;
    case op_empty_tuple:
      push(add_parent(PickleKind::tuple, {}));
      return true;
    case op_empty_list:
      push(add_parent(PickleKind::list, {}));
      return true;
    case op_empty_dict:
      push(add_parent(PickleKind::dict, {}));
      return true;
    case op_empty_set:
      push(add_parent(PickleKind::set, {}));
      return true;
    case op_tuple1:
    case op_tuple2:
    case op_tuple3:
      push(add_parent(PickleKind::tuple, pop_count(code - op_tuple1 + 1u)));
      return true;
    case op_tuple:
      push(add_parent(PickleKind::tuple, pop_to_mark()));
      return true;
    case op_list:
      push(add_parent(PickleKind::list, pop_to_mark()));
      return true;
    case op_frozenset:
      push(add_parent(PickleKind::set, pop_to_mark()));
      return true;
    case op_dict: {
      const auto items = pop_to_mark();
      push(add_parent(PickleKind::dict, {}));
      append(top(), items, PickleKind::dict);
      return true;
    }
    case op_append: {
      const PickleId item = pop();
      append(top(), {&item, 1}, PickleKind::list);
      return true;
    }
    case op_appends:
    case op_additems: {
      const auto items = pop_to_mark();
      append(top(), items, code == op_appends ? PickleKind::list : PickleKind::set);
      return true;
    }
    case op_setitem: {
      const auto items = pop_count(2);
      append(top(), items, PickleKind::dict);
      return true;
    }
    case op_setitems: {
      const auto items = pop_to_mark();
      append(top(), items, PickleKind::dict);
      return true;
    }
    default:
      return false;
  }
}

void PickleMachine::append(PickleId parent, std::span<const PickleId> items, PickleKind kind) {
  if (value(parent).kind != kind) {
    refuse(fmt::format("it adds items to {}", out_.shown(parent)));
  }
  if (kind == PickleKind::dict && items.size() % 2 != 0) refuse("a key has no value");
  enlarge(parent, items);
}

bool PickleMachine::step_memo(unsigned char code) {
  switch (code) {
    case op_binput:
      put(take_number<std::uint8_t>());
      return true;
    case op_long_binput:
      put(take_number<std::uint32_t>());
      return true;
    case op_memoize:
      put(memo_.size());
      return true;
    case op_binget:
      get(take_number<std::uint8_t>());
      return true;
    case op_long_binget:
      get(take_number<std::uint32_t>());
      return true;
    default:
      return false;
  }
}

// Writers number memo entries consecutively, so an index far beyond the last one is invalid, as are
// far more entries than values.
void PickleMachine::put(std::uint64_t at) {
  constexpr std::uint64_t most_skipped = 256;
  if (at > memo_.size() + most_skipped) {
    refuse(fmt::format("it stores a value at place {} after {} places", at, memo_.size()));
  }
  if (at > 2 * out_.values_.size() + 16 * most_skipped) {
    refuse(fmt::format("it has {} values and stores them in more places than are allowed",
                       out_.values_.size()));
  }
  constexpr PickleId nothing = ~PickleId{0};
  if (at >= memo_.size()) charge((at + 1 - memo_.size()) * 2 * sizeof(PickleId));
  if (at >= memo_.size()) memo_.resize(static_cast<std::size_t>(at) + 1, nothing);
  memo_[static_cast<std::size_t>(at)] = top();
}

void PickleMachine::get(std::uint64_t at) {
  if (at >= memo_.size() || memo_[static_cast<std::size_t>(at)] >= out_.values_.size()) {
    refuse(fmt::format("it asks for place {}, where nothing was stored", at));
  }
  charge(sizeof(PickleId));
  push(memo_[static_cast<std::size_t>(at)]);
}

bool PickleMachine::step_object(unsigned char code) {
  switch (code) {
    case op_global: {
      const std::string_view module = take_line(), name = take_line();
      push(add_name(module, name));
      return true;
    }
    case op_stack_global: {
      const auto words = pop_count(2);
      for (const PickleId word : words) {
        if (value(word).kind != PickleKind::text || value(word).text.size() > longest_class_name) {
          refuse("a name is not a short text");
        }
      }
      push(add_name(value(words[0]).text, value(words[1]).text));
      return true;
    }
    case op_reduce:
    case op_newobj: {
      const auto both = pop_count(2);
      push(code == op_reduce ? call(both[0], both[1]) : keep_object(both[0], both[1]));
      return true;
    }
    case op_build: {
      const auto both = pop_count(2);
      push(build(both[0], both[1]));
      return true;
    }
    case op_binpersid:
      push(add_storage(pop()));
      return true;
    default:
      return false;
  }
}

}  // namespace trireme
