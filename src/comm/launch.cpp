// Detects this process's launcher by its environment variables, the most specific first.
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "comm/transport.h"

namespace trireme {
namespace {

struct Launcher {
  const char* name;
  const char* size;
  const char* rank;
};

// SLURM sets SLURM_NTASKS in batch scripts and allocations too, which are a single process; only
// srun sets the variable of a step.
constexpr Launcher launchers[] = {
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpirun (PMI)", "PMI_SIZE", "PMI_RANK"},
    {"srun (SLURM)", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
};

int number(const char* name, const char* text) {
  int value = -1;
  const char* const end = text ? text + std::strlen(text) : nullptr;
  if (!text || std::from_chars(text, end, value).ptr != end || text == end || value < 0) {
    fail_input("the environment variable {}, which a launcher sets, must be a number, not '{}'",
               name, text ? text : "");
  }
  return value;
}

// Parses the number in a variable; 0 if there is none.
int count_in(const char* text) {
  int value = 0;
  if (text) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

// torchrun, accelerate, deepspeed and scripts written for them announce several processes in
// variables that no MPI knows: each process would train separately on the same files.
void refuse_foreign_launch(const GetVariable& get) {
  const auto said = [&](const char* name) {
    return fmt::format("{}={}", name, get(name) ? get(name) : "");
  };
  std::string why;
  int processes = 0;
  if (count_in(get("WORLD_SIZE")) > 1) {
    why = said("WORLD_SIZE");
    processes = count_in(get("WORLD_SIZE"));
  } else if (count_in(get("NNODES")) > 1) {
    why = said("NNODES");
  } else if (count_in(get("NODE_RANK")) > 0) {
    why = said("NODE_RANK");
  } else if (count_in(get("GROUP_RANK")) > 0) {
    why = said("GROUP_RANK");
  } else if (const char* master = get("MASTER_ADDR"); master && *master) {
    // Address of the other processes. Scripts that count their processes set the count to
    // one for a single process.
    const std::string address = master;
    const bool one = count_in(get("NNODES")) == 1 || count_in(get("WORLD_SIZE")) == 1;
    if (address != "localhost" && address != "127.0.0.1" && address != "::1" && !one)
      why = said("MASTER_ADDR");
  }
  if (why.empty()) return;
  const std::string name = why.substr(0, why.find('='));
  const std::string n = processes > 0 ? std::to_string(processes) : "N";
  // Suggests one mpirun on one of the hosts, which starts all processes, instead of launchers
  // whose variables name hosts.
  const int nodes = count_in(get("NNODES"));
  const std::string hosts =
      name == "WORLD_SIZE" || name == "GROUP_RANK"
          ? ""
          : fmt::format("--hostfile HOSTS (a file with the names of {} hosts, one per line) ",
                        nodes > 1 ? fmt::format("the {}", nodes) : std::string("all"));
  fail_input(
      "{} indicates one of several processes started by torchrun, but trireme must be started with "
      "mpirun or srun: once, on one host, mpirun -n {} {}trireme train ..., srun -n {} trireme "
      "train ..., or on one machine trireme train --nproc {} .... To run a single process, unset "
      "{}",
      why, n, hosts, n, n, name);
}

}  // namespace

LaunchInfo discover_launch(const GetVariable& get) {
  for (const Launcher& launcher : launchers) {
    const char* const text = get(launcher.size);
    if (!text) continue;
    const int size = number(launcher.size, text);
    const int rank = number(launcher.rank, get(launcher.rank));
    if (rank >= size) {
      fail_input("{} is {}, but {} is {}: ranks count from 0", launcher.rank, rank, launcher.size,
                 size);
    }
    return {rank, size, launcher.name};
  }
  refuse_foreign_launch(get);
  return {};
}

LaunchInfo discover_launch() {
  return discover_launch([](const char* name) { return std::getenv(name); });
}

}  // namespace trireme
