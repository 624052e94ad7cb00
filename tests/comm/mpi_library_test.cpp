// Tests of which MPI module a process loads: the one for the library of the build, or the one for
// the launcher that started it.
#include "comm/mpi_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "scratch_folder.h"

namespace trireme {
namespace {

std::optional<MpiInterface> interface_with(std::map<std::string, const char*> variables) {
  return interface_of_launch([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second;
  });
}

TEST(MpiLibrary, LaunchersTellTheirInterface) {
  EXPECT_EQ(interface_with({{"OMPI_COMM_WORLD_SIZE", "2"}}), MpiInterface::openmpi);
  EXPECT_EQ(interface_with({{"PMIX_RANK", "0"}, {"SLURM_PROCID", "0"}}), MpiInterface::openmpi);
  EXPECT_EQ(interface_with({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}), MpiInterface::mpich);
  EXPECT_EQ(interface_with({{"SLURM_STEP_NUM_TASKS", "2"}}), std::nullopt);
  EXPECT_EQ(interface_with({}), std::nullopt);
}

TEST(MpiLibrary, OfThisBuildIsUsedUnlessTheLauncherIsAnother) {
  const auto with = [](const char* set) {
    return find_mpi_part([=](const char* name) -> const char* {
      return set && std::string(name) == set ? "2" : nullptr;
    });
  };
  const MpiPart alone = with(nullptr);
  if (alone.file.empty()) GTEST_SKIP() << "this build has no MPI part";
  for (const char* launcher : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const MpiPart part = with(launcher);
    ASSERT_FALSE(part.file.empty()) << launcher;
    const bool mpich = std::string(launcher) == "PMI_SIZE";
    if (part.interface)
      EXPECT_EQ(*part.interface, mpich ? MpiInterface::mpich : MpiInterface::openmpi);
    else
      EXPECT_EQ(part.file, alone.file);
  }
}

// Its MPI may be in a folder that is not on PATH.
TEST(MpiLibrary, OfAChosenLauncherIsNextToIt) {
  const ScratchFolder folder;
  namespace fs = std::filesystem;
  fs::create_directories(folder / "bin");
  fs::create_directories(folder / "lib");
  const fs::path launcher = folder / "bin/mpirun";
  std::ofstream(launcher) << "#!/bin/sh\n";
  std::ofstream(folder / "lib/libmpi.so.12") << "";
  setenv("TRIREME_MPIRUN", launcher.c_str(), 1);
  EXPECT_EQ(find_mpi_launcher(MpiInterface::mpich), launcher);
  EXPECT_NE(find_mpi_launcher(MpiInterface::openmpi), launcher);
  unsetenv("TRIREME_MPIRUN");
}

}  // namespace
}  // namespace trireme
