// Decodes a kernel's text into a program: operands become slots of the register file, and an
// operation with its types becomes the function that runs it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "backend/gpu/ptx/machine.h"
#include "backend/gpu/ptx/text.h"

namespace trireme::ptx {

// Addresses of a module's variables in global and constant memory.
using Addresses = std::map<std::string, std::uint64_t>;

// Throws std::runtime_error with kernel, line and text for an unknown instruction.
Program decode(const ModuleText& module, const KernelText& kernel, const Addresses& globals);

// Slots of a kernel's values. Every value has 32 lanes of its width; a predicate is a mask.
class Slots {
 public:
  Slots(const KernelText& kernel, std::map<std::string, std::uint64_t> symbols, Program& program)
      : kernel_(kernel), symbols_(std::move(symbols)), program_(program) {}

  // Returns the slot of a register, a special register, a number or a variable's address, with
  // elements of `bytes` bytes. Throws std::runtime_error if the register has another width.
  std::uint32_t of(const std::string& operand, int bytes);
  std::uint32_t of_predicate(const std::string& operand);
  // Returns 0 if the operand is not a register.
  int register_bytes(const std::string& operand) const;
  const std::map<std::string, std::uint64_t>& symbols() const { return symbols_; }

 private:
  std::uint32_t make(std::uint32_t bytes);
  std::uint32_t of_register(const std::string& name, Type type);
  std::uint32_t constant(std::uint64_t value, int bytes);

  const KernelText& kernel_;
  std::map<std::string, std::uint64_t> symbols_;
  Program& program_;
  std::map<std::string, std::uint32_t> registers_;
  std::map<std::pair<std::uint64_t, int>, std::uint32_t> constants_;
};

// A statement that is being decoded into an instruction.
struct Decoding {
  const Statement& statement;
  Slots& slots;
  Instruction& to;

  const std::string& name() const { return statement.operation[0]; }
  Type type() const { return type_of(statement.operation.back()); }
  Type type_before() const { return type_of(statement.operation[statement.operation.size() - 2]); }
  bool has(std::string_view modifier) const;
  // Returns whether all modifiers between the name and the last `types` parts are among these.
  bool only(std::initializer_list<std::string_view> modifiers, int types = 1) const;
  // Maps operand `k` of the statement to operand `k` of the instruction.
  void operand(int k, int bytes) {
    to.at[static_cast<std::size_t>(k)] = slots.of(operand_text(k), bytes);
  }
  void predicate(int k) {
    to.at[static_cast<std::size_t>(k)] = slots.of_predicate(operand_text(k));
  }
  const std::string& operand_text(int k) const;
  // Splits "{%f1, %f2}" or "%f1".
  std::vector<std::string> vector_text(int k) const;
  // Stores the address of "[%rd1+8]" as operand `slot` and the offset as `number`.
  void address(int k, std::size_t slot);
};

// Each sets to.run and the operands if it knows the operation, and returns false otherwise.
bool decode_integers(Decoding&);
bool decode_floats(Decoding&);
bool decode_predicates(Decoding&);
bool decode_moves(Decoding&);
bool decode_conversions(Decoding&);
bool decode_accesses(Decoding&);
bool decode_atomics(Decoding&);
bool decode_late_copies(Decoding&);
bool decode_exchanges(Decoding&);
bool decode_matrices(Decoding&);

}  // namespace trireme::ptx
