// `trireme doctor`: reports training hardware and software, and potential problems.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/cpu/gemm.h"
#include "backend/cpu/isa.h"
#include "base/beside_program.h"
#include "base/choice.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/test_product.h"
#include "cli/doctor/two_ranks.h"
#include "cli/variables.h"
#include "comm/cores.h"
#include "comm/transport.h"
#include "config/choices.h"
#include "operations/mpi_leftovers.h"
#include "runtime/memory.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

// Value of the first line that begins with `key` in a file of /proc or /sys.
std::string line_of(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t at = line.find_first_not_of(" \t:", key.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

Finding processor() {
  const std::string name = line_of("/proc/cpuinfo", "model name");
  return {"processor", name.empty() ? "unknown" : name};
}

Finding instruction_set() {
  Finding finding{"instruction set", cpu::name_of(cpu::isa())};
  if (cpu::isa() != cpu::best_isa()) {
    finding.state = State::note;
    finding.advice =
        fmt::format("TRIREME_ISA disables {}, the best instruction set of this processor",
                    cpu::name_of(cpu::best_isa()));
  }
  return finding;
}

Finding threads() {
  const int threads = ThreadPool::global().size();
  const int processors = static_cast<int>(own_processors().size());
  Finding finding{"threads", fmt::format("{}; this process may use {}", threads,
                                         counted(processors, "processor"))};
  if (processors > 0 && threads > processors) {
    finding.state = State::note;
    finding.advice = "more threads than processors slow training down: decrease TRIREME_THREADS";
  }
  return finding;
}

Finding memory() {
  const std::string available = line_of("/proc/meminfo", "MemAvailable");
  const double free = 1024 * std::strtod(available.c_str(), nullptr);
  return {"memory", fmt::format("{}, {} of the machine's available now",
                                bytes_to_text(machine_memory_bytes()),
                                bytes_to_text(static_cast<std::int64_t>(free)))};
}

Finding large_pages() {
  const std::string modes = line_of("/sys/kernel/mm/transparent_hugepage/enabled", "");
  const std::size_t begin = modes.find('['), end = modes.find(']');
  if (begin == std::string::npos || end == std::string::npos)
    return {"large pages", "unknown", State::good, ""};
  Finding finding{"large pages", modes.substr(begin + 1, end - begin - 1)};
  if (finding.text == "never") {
    finding.state = State::note;
    finding.advice =
        "steps are slightly slower without them: echo madvise > "
        "/sys/kernel/mm/transparent_hugepage/enabled";
  }
  return finding;
}

template <class T>
double product_error(cpu::Isa set) {
  TestProduct<T> product;
  const cpu::Linear<T> linear(Product::forward, product.shape, set);
  std::vector<std::byte> workspace(static_cast<std::size_t>(linear.workspace_bytes()));
  linear.run(product.y.data(), product.x.data(), product.weight.data(), nullptr, false,
             workspace.data());
  return product.error();
}

// Detects processors, virtual machines and libraries that compute wrong results before they show up
// in a loss curve.
Finding products() {
  Finding finding{"matrix products", ""};
  for (const cpu::Isa set : {cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::amx}) {
    if (!cpu::supports(set) || set > cpu::isa()) continue;
    const bool right = product_error<float>(set) < 1e-5 && product_error<bf16>(set) < 1e-2;
    finding.text += fmt::format("{}{} {}", finding.text.empty() ? "" : ", ", cpu::name_of(set),
                                right ? "right" : "WRONG");
    if (right) continue;
    finding.state = State::fault;
    finding.advice =
        "the numerical self-test failed: this machine computes wrong results. Do not train on it";
  }
  return finding;
}

bool is_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0;
  return !find_on_path(name).empty();
}

Finding mpi() {
  const MpiInfo info = find_mpi();
  if (info.plugin.empty()) {
    return {"MPI", "not found", State::note, "for several processes " + info.advice};
  }
  if (info.library.empty()) {
    return {"MPI", "cannot be loaded", State::fault, info.problem};
  }
  Finding finding{"MPI", fmt::format("{}; --nproc starts {}", info.library, info.launcher)};
  if (!is_program(info.launcher)) {
    finding.state = State::note;
    finding.advice = fmt::format("{} was not found, which --nproc requires (Debian: openmpi-bin)",
                                 info.launcher);
  }
  return finding;
}

bool is_in_a_job() {
  try {
    return !discover_launch().launcher.empty();
  } catch (const Error&) {
    return true;
  }
}

// A loadable library does not guarantee that jobs start: this also depends on MPI's variables, the
// network and system policies.
Finding two_ranks() {
  constexpr double limit_s = 20;
  Finding finding{"two ranks", "not started"};
  const MpiInfo info = find_mpi();
  if (info.library.empty() || !is_program(info.launcher)) {
    finding.text += ": no MPI launcher was found";
  } else if (is_in_a_job()) {
    finding.text += ": this process is itself part of a job";
  } else if (const TwoRanks ranks = start_two_ranks(limit_s); ranks.problem.empty()) {
    finding.text = fmt::format("started and connected in {:.1f} s", ranks.seconds);
  } else {
    finding.state = State::fault;
    finding.advice =
        fmt::format("a run with --nproc would not start on this machine: {} -n 2 ended with {}",
                    info.launcher, ranks.problem);
  }
  return finding;
}

// Misspelled variables would otherwise be ignored silently.
Finding variables() {
  Finding finding{"variables", ""};
  for (const OwnVariable& one : own_variables()) {
    finding.text += fmt::format("{}{}", finding.text.empty() ? "" : " ", one.name);
    if (one.known) continue;
    finding.state = State::note;
    finding.advice +=
        fmt::format("{}{} is not a variable of Trireme{}", finding.advice.empty() ? "" : "; ",
                    one.name, one.nearest.empty() ? "" : ": did you mean " + one.nearest + "?");
  }
  if (finding.text.empty()) finding.text = "no TRIREME_* variable is set";
  return finding;
}

Finding job() {
  try {
    const LaunchInfo launch = discover_launch();
    if (launch.size == 1) return {"job", "one process"};
    return {"job", fmt::format("process {} of {}, started by {}", launch.rank, launch.size,
                               launch.launcher)};
  } catch (const Error& error) {
    return {"job", "unknown", State::note, error.what()};
  }
}

Finding leftovers(bool clean) {
  const MpiLeftovers left = find_mpi_leftovers();
  if (left.paths.empty()) return {"MPI leftovers", "none"};
  const std::string text =
      fmt::format("{} left by killed jobs, {} of shared memory", counted(left.paths.size(), "file"),
                  bytes_to_text(left.bytes));
  if (clean) {
    return {"MPI leftovers",
            fmt::format("removed {} of {}", remove_leftovers(left), left.paths.size())};
  }
  return {"MPI leftovers", text, State::note,
          fmt::format("trireme doctor --clean removes them: {}", fmt::join(left.paths, " "))};
}

void run(bool as_json, bool clean, const std::string& device) {
  std::vector<Finding> findings = {{"trireme", TRIREME_VERSION},
                                   processor(),
                                   instruction_set(),
                                   threads(),
                                   memory(),
                                   large_pages(),
                                   products(),
                                   mpi(),
                                   two_ranks(),
                                   variables(),
                                   job(),
                                   leftovers(clean)};
  for (Finding& finding : gpu_findings(find_choice<DeviceKind>(device)))
    findings.push_back(std::move(finding));
  const char* const names[] = {"good", "note", "fault"};
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  int faults = 0;
  for (const Finding& f : findings) {
    faults += f.state == State::fault;
    const char* const state = names[static_cast<int>(f.state)];
    if (as_json) {
      json.push_back({{"what", f.what}, {"found", f.text}, {"state", state}, {"advice", f.advice}});
      continue;
    }
    fmt::print("{:<16} {}\n", f.what, f.text);
    if (f.state != State::good) fmt::print("{:<16} {}: {}\n", "", state, f.advice);
  }
  if (as_json) fmt::print("{}\n", json.dump());
  if (faults > 0) fail("doctor: {} found", counted(faults, "fault"));
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Check this machine: its hardware, and whether kernels compute correct results");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  const auto clean = std::make_shared<bool>(false);
  command->add_flag("--clean", *clean,
                    "Remove shared memory and session folders left by killed MPI jobs");
  const auto device = std::make_shared<std::string>();
  command
      ->add_option(
          "--device", *device,
          "Check this run.device: cuda, hip or emulated; default: the GPUs of all installed "
          "plug-ins")
      ->check(CLI::IsMember({"cuda", "hip", "emulated"}));
  const auto nodes = std::make_shared<bool>(false);
  command->add_flag("--nodes", *nodes,
                    "Under srun or mpirun: test every node within seconds (matrix products, "
                    "memory, links to its neighbors, storage) and name those that compute wrong "
                    "results or are slower than the others; exit code 1 if there are any");
  const auto compared = std::make_shared<NodesCommand>();
  const auto of_nodes = [&](CLI::Option* option) { option->needs("--nodes"); };
  of_nodes(command->add_option("--hosts", compared->hosts,
                               "With --nodes: write the names of the healthy nodes to this file"));
  of_nodes(command
               ->add_option("--slow", compared->check.slow,
                            "With --nodes: share of the median speed below which a node counts as "
                            "slow")
               ->check(CLI::Range(0.05, 1.0))
               ->capture_default_str());
  of_nodes(command
               ->add_option("--storage", compared->check.storage,
                            "With --nodes: folder in which each node writes a file of 32 MiB")
               ->capture_default_str());
  of_nodes(command
               ->add_option("--seconds", compared->check.seconds,
                            "With --nodes: duration of the matrix products")
               ->check(CLI::Range(0.01, 600.0))
               ->capture_default_str());
  of_nodes(
      command
          ->add_option("--timeout", compared->timeout_s,
                       "With --nodes: seconds after which a rank that does not answer ends the "
                       "check")
          ->check(CLI::Range(1.0, 3600.0))
          ->capture_default_str());
  const auto one_of_two = std::make_shared<bool>(false);
  command->add_flag(two_ranks_flag, *one_of_two)->group("");
  command->callback([json, clean, device, nodes, compared, one_of_two] {
    if (*one_of_two) return be_one_of_two_ranks();
    if (!*nodes) return run(*json, *clean, *device);
    if (*clean || !device->empty())
      fail_input("--nodes conflicts with --clean and --device: remove them");
    compared->json = *json;
    doctor_nodes(*compared);
  });
}

}  // namespace trireme::cli
