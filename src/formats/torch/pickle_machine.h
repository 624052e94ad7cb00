// The stack machine that executes a pickle: a stack of values, marks, and a memo.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/torch/pickle.h"
#include "formats/torch/pickle_names.h"

namespace trireme {

class PickleMachine {
 public:
  PickleMachine(std::string_view text, const PickleLimits& limits, Pickle& out)
      : text_(text), limits_(limits), out_(out) {}

  void run();

 private:
  struct Name {
    std::string module, name;
    PickleMeaning meaning;
  };

  [[noreturn]] void refuse(const std::string& what) const;

  // Operands in the input.
  std::string_view take(std::uint64_t bytes);
  std::string_view take_counted(int length_bytes);
  std::string_view take_line();
  template <class T>
  T take_number();

  // Values.
  PickleId add(const PickleValue& value);
  PickleId add_text(PickleKind kind, std::string_view text);
  PickleId add_integer(std::int64_t value, PickleKind kind = PickleKind::integer);
  PickleId add_long(std::string_view bytes);
  PickleId add_real(std::string_view big_endian);
  PickleId add_parent(PickleKind kind, std::vector<PickleId> children);
  void charge(std::size_t bytes);
  void enlarge(PickleId parent, std::span<const PickleId> further);
  void push(PickleId id);
  PickleId pop();
  PickleId top() const;
  std::vector<PickleId> pop_to_mark();
  std::vector<PickleId> pop_count(std::size_t count);
  const PickleValue& value(PickleId id) const { return out_.values_[id]; }

  // Operations.
  bool step(unsigned char code);
  bool step_constant(unsigned char code);
  bool step_container(unsigned char code);
  bool step_memo(unsigned char code);
  bool step_object(unsigned char code);
  void append(PickleId list, std::span<const PickleId> items, PickleKind kind);
  void put(std::uint64_t at);
  void get(std::uint64_t at);

  // Names and calls (pickle_calls.cpp).
  PickleId add_name(std::string_view module, std::string_view name);
  const Name& name_of(PickleId callable) const;
  PickleId call(PickleId callable, PickleId arguments);
  PickleId call_dict(std::span<const PickleId> arguments);
  PickleId call_collection(PickleKind kind, std::span<const PickleId> arguments);
  PickleId call_encode(std::span<const PickleId> arguments);
  PickleId call_bytes(std::span<const PickleId> arguments);
  PickleId call_tensor(std::span<const PickleId> arguments, bool typed);
  PickleId call_with_type(std::span<const PickleId> arguments);
  PickleId keep_object(PickleId callable, PickleId arguments);
  PickleId build(PickleId object, PickleId state);
  PickleId add_storage(PickleId description);
  std::vector<std::int64_t> sizes(PickleId tuple, const char* what) const;
  std::int64_t integer(PickleId id, const char* what) const;
  void check_extent(const PickleTensor& tensor) const;

  std::string_view text_;
  const PickleLimits& limits_;
  Pickle& out_;
  std::size_t at_ = 0;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleId> memo_;
  std::vector<Name> names_;  // beside out_.names_
  std::map<std::pair<std::string_view, std::string_view>, PickleId> known_names_;
  std::map<std::string_view, std::uint32_t> known_storages_;
  std::uint64_t charged_ = 0, encoded_bytes_ = 0;
};

}  // namespace trireme
