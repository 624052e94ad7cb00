// Advice on launchers: the right --mpi of srun, the right mpirun.
#include "comm/launch_advice.h"

#include "base/error.h"

namespace trireme {
namespace {

constexpr const char* srun_advice =
    "use srun --mpi=pmix (Open MPI) or srun --mpi=pmi2 (MPICH); srun --mpi=list shows what this "
    "cluster supports";

}  // namespace

std::string srun_warning(const std::string& library, const GetVariable& get) {
  if (!get("SLURM_STEP_NUM_TASKS") || get("OMPI_COMM_WORLD_SIZE") || get("PMIX_RANK")) return "";
  if (!library.starts_with("Open MPI")) return "";
  return fmt::format("this srun does not provide PMIx to {}. If MPI does not start now, {}",
                     library, srun_advice);
}

std::string launcher_mismatch(const LaunchInfo& launch, const std::string& library, int seen,
                              const GetVariable& get) {
  const std::string problem = fmt::format(
      "{} started {} processes, but {}, the MPI library of this build, sees {}: it does not "
      "support this launcher. ",
      launch.launcher, launch.size, library, seen);
  if (get("SLURM_STEP_NUM_TASKS") && !get("OMPI_COMM_WORLD_SIZE")) {
    return problem + fmt::format(
                         "To start them together, {}. To run a single process, unset "
                         "SLURM_STEP_NUM_TASKS and PMI_SIZE",
                         srun_advice);
  }
  return problem + fmt::format(
                       "Start with {}, or build with the MPI of this launcher (cmake "
                       "-DMPI_HOME=FOLDER or -DMPI_EXECUTABLE_SUFFIX=.mpich)",
                       mpi_launcher());
}

}  // namespace trireme
