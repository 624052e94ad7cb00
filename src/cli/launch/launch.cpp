// Runs mpirun, with cores and threads divided among the processes.
#include "cli/launch/launch.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/beside_program.h"
#include "base/error.h"
#include "cli/launch/job.h"
#include "comm/cores.h"
#include "comm/transport.h"
#include "operations/mpi_leftovers.h"
#include "train/reports/console.h"
#include "train/run/run_lock.h"
#include "train/run/run_status.h"

namespace trireme::cli {
namespace {

// Removes the first occurrence of the flag, as "--flag VALUE" or "--flag=VALUE".
void remove_flag(std::vector<std::string>& words, std::string_view flag) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool joined = words[i].starts_with(std::string(flag) + "=");
    if (!joined && words[i] != flag) continue;
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    words.erase(at, joined || at + 1 == words.end() ? at + 1 : at + 2);
    return;
  }
}

void set_default(const char* name, const std::string& value) {
  setenv(name, value.c_str(), 0);
}

std::string loopback_interface() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return "";
  std::string name;
  for (const ifaddrs* one = first; one && name.empty(); one = one->ifa_next)
    if ((one->ifa_flags & IFF_LOOPBACK) && (one->ifa_flags & IFF_UP)) name = one->ifa_name;
  ::freeifaddrs(first);
  return name;
}

// Whether /dev/shm has space for the segment of each Open MPI process.
bool has_shared_memory(int processes) {
  constexpr std::uint64_t segment = std::uint64_t{8} << 20;  // half of it by default
  struct statvfs disk {};
  return ::statvfs("/dev/shm", &disk) == 0 &&
         std::uint64_t{disk.f_bavail} * disk.f_frsize > segment * static_cast<unsigned>(processes);
}

// Variables by which launchers and UCX choose interfaces: Open MPI 4's, PMIx's (Open MPI 5),
// MPICH's Hydra's and UCX's. PRTE's is not among them: Open MPI 5 does not start with loopback
// only.
constexpr const char* interface_variables[] = {
    "OMPI_MCA_oob_tcp_if_include", "PMIX_MCA_ptl_tcp_if_include", "HYDRA_IFACE", "UCX_NET_DEVICES"};

// Puts the launcher's own ports on the loopback interface too (comm/mpi/loopback.cpp), unless the
// user has chosen other interfaces. The variable's entries are separated by blanks or colons.
void listen_on_loopback(const std::string& loopback) {
  const auto chosen = [&](const char* name) { return getenv(name) != loopback; };
  if (std::ranges::any_of(interface_variables, chosen)) return;
  const std::string library =
      find_beside_program("libtrireme_loopback.so", TRIREME_BUILT_FILES).string();
  if (library.empty() || library.find_first_of(" :") != library.npos) return;
  const char* const others = getenv("LD_PRELOAD");
  setenv("LD_PRELOAD", (others ? library + ":" + others : library).c_str(), 1);
}

// Keeps processes from opening ports to other machines: they talk to the launcher over the loopback
// interface, and to each other through shared memory.
void stay_on_this_machine(int processes) {
  if (const std::string loopback = loopback_interface(); !loopback.empty()) {
    for (const char* name : interface_variables) set_default(name, loopback);
    listen_on_loopback(loopback);
  }
  if (!has_shared_memory(processes)) return;
  set_default("OMPI_MCA_pml", "ob1");
  set_default("OMPI_MCA_btl", "vader,self");
}

// A killed rank holds the lock until the OS has torn it down, which may be shortly after the
// launcher has exited.
bool is_held_by_others(const std::string& run_folder) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (is_locked(run_folder)) {
    if (std::chrono::steady_clock::now() > end) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Does nothing if another run holds the folder, since the status is then that run's.
void note_failure(const std::string& run_folder, const std::string& reason) {
  if (run_folder.empty()) return;
  try {
    if (!is_held_by_others(run_folder)) mark_failed(run_folder, reason);
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: status.json: %s\n", error.what());
  }
}

}  // namespace

// Processes bind themselves (comm/cores.h), and each starts one thread per core of its share,
// at least one. The launcher is asked neither to bind nor to count slots, through the variables
// of those that would: Open MPI 4, and PRRTE (Open MPI 5). Other launchers ignore these
// variables.
void prepare_launch(int processes) {
  // Open MPI searches for programs, and fails without any message if there is no PATH.
  set_default("PATH", "/usr/local/bin:/usr/bin:/bin");
  stay_on_this_machine(processes);
  const int processors = std::max(1, static_cast<int>(own_processors().size()));
  if (processors >= processes) {
    set_default(share_processors_variable, std::to_string(processors));
  } else {
    set_default("TRIREME_THREADS", "1");
    set_default("OMPI_MCA_mpi_yield_when_idle", "1");
  }
  set_default("OMPI_MCA_rmaps_base_oversubscribe", "1");
  set_default("OMPI_MCA_hwloc_base_binding_policy", "none");
  set_default("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
  set_default("PRTE_MCA_hwloc_default_binding_policy", "none");
  // Whatever this process writes to, a rank sees a pipe or, with Open MPI, another terminal.
  set_default(is_colored(stdout) ? "CLICOLOR_FORCE" : "NO_COLOR", "1");
  set_default(terminal_columns_variable, std::to_string(terminal_columns(stdout)));
  if (geteuid() == 0) {
    for (const std::string project : {"OMPI", "PRTE"}) {
      set_default((project + "_ALLOW_RUN_AS_ROOT").c_str(), "1");
      set_default((project + "_ALLOW_RUN_AS_ROOT_CONFIRM").c_str(), "1");
    }
  }
}

std::vector<std::string> own_command_without(std::initializer_list<std::string_view> flags) {
  std::vector<std::string> words = own_command();
  for (const std::string_view flag : flags) remove_flag(words, flag);
  return words;
}

void launch_processes(int processes, const std::string& run_folder) {
  const LaunchInfo launch = discover_launch();
  if (launch.size > 1) {
    fail_input("--nproc: {} has already started {} processes: remove --nproc", launch.launcher,
               launch.size);
  }
  if (processes == 1) return;
  prepare_launch(processes);
  std::vector<std::string> words = {mpi_launcher(), "-n", std::to_string(processes)};
  for (std::string& word : own_command_without({"--nproc"})) words.push_back(std::move(word));
  run_job(words, [&, start = std::time(nullptr)](const std::string& reason) {
    note_failure(run_folder, reason);
    // Killed processes leave shared memory behind.
    remove_leftovers(find_mpi_leftovers(start));
  });
}

}  // namespace trireme::cli
