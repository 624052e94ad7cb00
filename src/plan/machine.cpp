// Machine files: TOML with `device`, `isa`, `bf16_dot_products` and `threads`, and tables of
// performance figures.
#include "plan/machine.h"

#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <filesystem>

#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/file.h"
#include "config/toml_depth.h"
#include "operations/site.h"
#include "plan/machine_speed.h"

namespace trireme {
namespace {

struct MachineFile {
  const char* name;
  const char* text;
};

constexpr std::size_t largest_file = 1 << 20;

// clang-format off
constexpr MachineFile known_machines[] = {
#include <machines.inc>
};
// clang-format on

cpu::Isa parse_isa(const std::string& text, const std::string& where) {
  for (const cpu::Isa isa : {cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::amx})
    if (text == cpu::name_of(isa)) return isa;
  fail_input("{}: isa is '{}', but it must be avx2, avx512 or amx", where, text);
}

DeviceKind parse_device(const std::string& text, const std::string& where) {
  for (const DeviceKind kind :
       {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::hip, DeviceKind::emulated})
    if (text == name_of(kind)) return kind;
  fail_input("{}: device is '{}', but it must be cpu, cuda, hip or emulated", where, text);
}

Machine parse_machine(const std::string& text, const std::string& where) {
  if (const int line = line_of_deep_key(text); line > 0)
    fail_input("{}, line {}: a key has more than {} parts", where, line, max_toml_key_parts);
  const toml::parse_result parsed = [&] {
    try {
      return toml::parse(text);
    } catch (const toml::parse_error& error) {
      fail_input("{}, line {}: {}", where, error.source().begin.line, error.description());
    }
  }();
  Target target;
  bool has_device = false, has_isa = false;
  for (const auto& [key, value] : parsed) {
    const std::string name(key.str());
    if (name == "device") {
      has_device = true;
      target.device = parse_device(value.value_or<std::string>("?"), where);
    } else if (name == "isa") {
      has_isa = true;
      target.isa = parse_isa(value.value_or<std::string>("?"), where);
    } else if (name == "bf16_dot_products") {
      const auto given = value.value_exact<bool>();
      if (!given) fail_input("{}: bf16_dot_products must be true or false", where);
      target.bf16_dot_products = *given;
    } else if (name == "threads") {
      const auto given = value.value_exact<std::int64_t>();
      if (!given || *given < 1 || *given > 4096)
        fail_input("{}: threads must be a number from 1 to 4096", where);
      target.threads = static_cast<int>(*given);
    } else if (!is_speed_table(name)) {
      fail_input(
          "{}: unknown key '{}'; the keys are device, isa, bf16_dot_products and threads, and the "
          "tables described in docs/time.md",
          where, name);
    }
  }
  if (!has_device) fail_input("{}: device must be set", where);
  const bool is_cpu = target.device == DeviceKind::cpu;
  if (is_cpu && !has_isa) fail_input("{}: device and isa must be set", where);
  if (!is_cpu && has_isa)
    fail_input("{}: isa applies to CPUs, but device is {}", where, name_of(target.device));
  if (target.isa == cpu::Isa::avx2 && target.bf16_dot_products)
    fail_input("{}: isa avx2 does not support bf16_dot_products", where);
  if (target.isa == cpu::Isa::amx) target.bf16_dot_products = true;
  const std::optional<MachineSpeed> speed = parse_speed(parsed, where);
  if (is_cpu && speed && speed->host_bytes > 0)
    fail_input("{}: host_bytes of [memory] applies to GPUs: on CPUs set bytes", where);
  return {std::filesystem::path(where).stem().string(), target, speed};
}

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const MachineFile& machine : known_machines) names.emplace_back(machine.name);
  return names;
}

std::string machine_text(const std::string& name) {
  for (const MachineFile& machine : known_machines)
    if (name == machine.name) return machine.text;
  return "";
}

Machine find_machine(const std::string& name_or_file) {
  if (name_or_file.empty()) return {"this machine", cpu::this_machine(), {}};
  const std::string known(machine_of_site(name_or_file));
  if (const std::string text = machine_text(known); !text.empty())
    return parse_machine(text, known);
  if (!std::filesystem::is_regular_file(name_or_file)) {
    fail_input("--machine {}: neither a file nor a known machine ({})", name_or_file,
               fmt::join(machine_names(), ", "));
  }
  return parse_machine(read_file(name_or_file, largest_file), name_or_file);
}

std::int64_t device_memory_of(const std::string& name_or_file) {
  const Machine machine = find_machine(name_or_file);
  TRIREME_CHECK(machine.speed.has_value());
  return static_cast<std::int64_t>(machine.speed->memory_bytes);
}

}  // namespace trireme
