// Who started this process: variables of the launchers, the most specific first.
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

// SLURM sets SLURM_NTASKS in batch scripts and allocations too, where this process is alone; the
// variable of a step is there only under srun.
constexpr Launcher launchers[] = {
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpirun (PMI)", "PMI_SIZE", "PMI_RANK"},
    {"srun (SLURM)", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
};

int number(const char* name, const char* text) {
  int value = -1;
  const char* const end = text ? text + std::strlen(text) : nullptr;
  if (!text || std::from_chars(text, end, value).ptr != end || text == end || value < 0) {
    fail_input("the environment variable {} is '{}'; a launcher sets it to a number", name,
               text ? text : "");
  }
  return value;
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
  return {};
}

LaunchInfo discover_launch() {
  return discover_launch([](const char* name) { return std::getenv(name); });
}

}  // namespace trireme
