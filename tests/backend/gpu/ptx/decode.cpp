// A kernel's register file, control flow, and the choice among decoders.
#include "backend/gpu/ptx/decode.h"

#include <algorithm>
#include <stdexcept>

namespace trireme::ptx {
namespace {

constexpr const char* special_names[Program::specials] = {
    "%tid.x",   "%tid.y",   "%tid.z",    "%ntid.x",   "%ntid.y",   "%ntid.z", "%ctaid.x",
    "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid"};

std::int64_t aligned(std::int64_t at, std::int64_t align) {
  return (at + align - 1) / align * align;
}

// Parses "0f3F800000", "0d3FF0000000000000", "-5", "0x7f", "12U".
std::uint64_t number_of(const std::string& text) {
  const bool is_float = text.size() > 2 && text[0] == '0' &&
                        (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D');
  std::size_t used = 0;
  std::uint64_t value = 0;
  if (is_float) {
    value = std::stoull(text.substr(2), &used, 16);
    used += 2;
  } else if (text[0] == '-') {
    value = static_cast<std::uint64_t>(std::stoll(text, &used, 0));
  } else {
    value = std::stoull(text, &used, 0);
  }
  if (used < text.size() && text[used] == 'U') ++used;
  if (used != text.size()) throw std::runtime_error("a number that is not understood: " + text);
  return value;
}

// Lays out variables consecutively and records the address of each.
std::int64_t lay_out(const std::vector<Variable>& variables, std::int64_t top, std::uint64_t base,
                     std::map<std::string, std::uint64_t>& symbols) {
  for (const Variable& v : variables) {
    top = aligned(top, v.align);
    symbols[v.name] = base + static_cast<std::uint64_t>(top);
    top += v.bytes;
  }
  return top;
}

bool names(const KernelText& kernel, const std::string& symbol) {
  return std::any_of(kernel.statements.begin(), kernel.statements.end(),
                     [&](const Statement& s) { return s.text.find(symbol) != std::string::npos; });
}

class Decoder {
 public:
  Decoder(const ModuleText& module, const KernelText& kernel, const Addresses& globals)
      : kernel_(kernel), slots_(kernel, symbols_of(module, kernel, globals), program_) {}

  Program run() {
    program_.name = kernel_.name;
    program_.most_threads = kernel_.most_threads;
    for (const Variable& v : kernel_.parameters) {
      program_.parameter_sizes.push_back(v.bytes);
      program_.parameter_offsets.push_back(v.offset);
    }
    program_.parameter_bytes = kernel_.parameter_bytes;
    for (const Statement& s : kernel_.statements) {
      program_.code.push_back(instruction(s));
      program_.texts.push_back(s.text);
    }
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(const Statement& s, const std::string& what) const {
    throw std::runtime_error(kernel_.name + ", PTX line " + std::to_string(s.line) + ": " + what +
                             ": " + s.text);
  }

  std::map<std::string, std::uint64_t> symbols_of(const ModuleText& module,
                                                  const KernelText& kernel,
                                                  const Addresses& globals) {
    program_.special_slots.fill(-1);
    std::map<std::string, std::uint64_t> symbols = globals;
    std::vector<Variable> shared = kernel.shared;
    for (const Variable& v : module.shared)
      if (names(kernel, v.name)) shared.push_back(v);
    program_.shared_bytes = aligned(lay_out(shared, 0, shared_base, symbols), 16);
    for (const std::string& name : module.dynamic_shared)
      symbols[name] = shared_base + static_cast<std::uint64_t>(program_.shared_bytes);
    program_.local_bytes = aligned(lay_out(kernel.local, 0, 0, symbols), 16);
    for (const Variable& v : kernel.parameters)
      symbols[v.name] = static_cast<std::uint64_t>(v.offset);
    return symbols;
  }

  Instruction instruction(const Statement& s) {
    Instruction i;
    i.line = s.line;
    try {
      if (!s.guard.empty()) i.guard = static_cast<std::int32_t>(slots_.of_predicate(s.guard));
      i.guard_negated = s.guard_negated;
      Decoding d{s, slots_, i};
      if (flow(d) || decode_moves(d) || decode_predicates(d) || decode_conversions(d) ||
          decode_floats(d) || decode_integers(d) || decode_accesses(d) || decode_atomics(d) ||
          decode_late_copies(d) || decode_exchanges(d) || decode_matrices(d))
        return i;
    } catch (const std::exception& error) {
      fail(s, error.what());
    }
    fail(s, "an instruction that this interpreter does not know");
  }

  int label(const std::string& name) const {
    const auto found = kernel_.labels.find(name);
    if (found == kernel_.labels.end()) throw std::runtime_error("no label " + name);
    return found->second;
  }
  bool flow(Decoding& d) const {
    const std::string& name = d.name();
    if (name == "bra") {
      d.to.flow = Flow::branch;
      d.to.target = label(d.operand_text(0));
      return true;
    }
    if (name == "brx") {
      d.to.flow = Flow::table;
      d.operand(0, 4);
      for (const std::string& target : kernel_.branch_lists.at(d.operand_text(1)))
        d.to.targets.push_back(label(target));
      return true;
    }
    if (name == "ret" || name == "exit") {
      d.to.flow = Flow::leave;
      return true;
    }
    if ((name == "bar" || name == "barrier") && d.has("sync") && !d.has("warp")) {
      d.to.flow = Flow::barrier;
      return d.statement.operands.size() == 1 && d.operand_text(0) == "0";
    }
    return false;
  }

  const KernelText& kernel_;
  Program program_;
  Slots slots_;
};

}  // namespace

// --- slots ---

std::uint32_t Slots::make(std::uint32_t bytes) {
  constexpr std::uint32_t line = 64;
  const std::uint32_t at = program_.register_bytes;
  program_.register_bytes += (bytes + line - 1) / line * line;
  return at;
}

std::uint32_t Slots::of_register(const std::string& name, Type type) {
  const auto [found, is_new] = registers_.try_emplace(name, 0);
  if (is_new)
    found->second =
        make(type.kind == 'p' ? sizeof(Mask) : static_cast<std::uint32_t>(lanes * type.bytes()));
  return found->second;
}

std::uint32_t Slots::constant(std::uint64_t value, int bytes) {
  const auto [found, is_new] = constants_.try_emplace({value, bytes}, 0);
  if (is_new) {
    found->second = make(static_cast<std::uint32_t>(bytes ? bytes * lanes : 4));
    program_.constants.push_back({found->second, bytes, value});
  }
  return found->second;
}

int Slots::register_bytes(const std::string& operand) const {
  const auto found = kernel_.registers.find(operand);
  return found == kernel_.registers.end() ? 0 : found->second.bytes();
}

std::uint32_t Slots::of(const std::string& operand, int bytes) {
  if (const auto found = kernel_.registers.find(operand); found != kernel_.registers.end()) {
    if (found->second.kind == 'p' || found->second.bytes() != bytes)
      throw std::runtime_error("register " + operand + " is not of " + std::to_string(8 * bytes) +
                               " bits");
    return of_register(operand, found->second);
  }
  for (int k = 0; k < Program::specials; ++k) {
    if (operand != special_names[k]) continue;
    if (bytes != 4) throw std::runtime_error("a special register of other than 32 bits");
    std::int32_t& slot = program_.special_slots[static_cast<std::size_t>(k)];
    if (slot < 0) slot = static_cast<std::int32_t>(make(4 * lanes));
    return static_cast<std::uint32_t>(slot);
  }
  if (operand == "WARP_SZ") return constant(lanes, bytes);
  if (const auto found = symbols_.find(operand); found != symbols_.end())
    return constant(found->second, bytes);
  if (operand.empty() || operand[0] == '%') throw std::runtime_error("unknown register " + operand);
  return constant(number_of(operand), bytes);
}

std::uint32_t Slots::of_predicate(const std::string& operand) {
  if (const auto found = kernel_.registers.find(operand); found != kernel_.registers.end()) {
    if (found->second.kind != 'p') throw std::runtime_error(operand + " is no predicate");
    return of_register(operand, found->second);
  }
  return constant(number_of(operand) ? all_lanes : 0, 0);
}

// --- statements ---

bool Decoding::has(std::string_view modifier) const {
  return std::find(statement.operation.begin() + 1, statement.operation.end(), modifier) !=
         statement.operation.end();
}

bool Decoding::only(std::initializer_list<std::string_view> modifiers, int types) const {
  const auto& parts = statement.operation;
  if (static_cast<int>(parts.size()) < 1 + types) return false;
  return std::all_of(parts.begin() + 1, parts.end() - types, [&](const std::string& part) {
    return std::find(modifiers.begin(), modifiers.end(), part) != modifiers.end();
  });
}

const std::string& Decoding::operand_text(int k) const {
  if (k >= static_cast<int>(statement.operands.size()))
    throw std::runtime_error("too few operands");
  return statement.operands[static_cast<std::size_t>(k)];
}

std::vector<std::string> Decoding::vector_text(int k) const {
  const std::string& text = operand_text(k);
  if (text.empty() || text[0] != '{') return {text};
  std::vector<std::string> parts(1);
  for (const char c : text.substr(1, text.size() - 2)) {
    if (c == ',') {
      parts.emplace_back();
    } else if (c != ' ') {
      parts.back() += c;
    }
  }
  return parts;
}

void Decoding::address(int k, std::size_t slot) {
  std::string text = operand_text(k);
  if (text.size() < 3 || text.front() != '[' || text.back() != ']')
    throw std::runtime_error("no address: " + text);
  text = text.substr(1, text.size() - 2);
  std::erase(text, ' ');
  const std::size_t sign = text.find_first_of("+-", 1);
  to.number = 0;
  if (sign != std::string::npos) {
    to.number = std::stoll(text.substr(text[sign] == '+' ? sign + 1 : sign), nullptr, 0);
    text.resize(sign);
  }
  const int bytes = slots.register_bytes(text);
  to.wide_address = bytes != 4;
  to.at[slot] = slots.of(text, bytes == 4 ? 4 : 8);
}

Program decode(const ModuleText& module, const KernelText& kernel, const Addresses& globals) {
  return Decoder(module, kernel, globals).run();
}

}  // namespace trireme::ptx
