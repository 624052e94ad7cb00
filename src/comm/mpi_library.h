// Which MPI of this machine a process uses: the binary interface of what launched it, the MPI part
// for that interface, and the library itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "comm/transport.h"

namespace trireme {

// MPI libraries whose binary interfaces are the same: Cray MPICH and Intel MPI have MPICH's.
enum class MpiInterface : std::uint8_t { openmpi, mpich };

// That of the launcher; none where its variables do not tell (srun without a PMI, or no launcher).
std::optional<MpiInterface> interface_of_launch(const GetVariable& get);

struct MpiPart {
  std::filesystem::path file;             // empty: there is none
  std::optional<MpiInterface> interface;  // set: it needs load_mpi_library()
};

// The MPI part that was built with this machine's MPI where it fits the launcher, else the one for
// the launcher's interface. Without a launcher: the former, else the one whose library is found.
MpiPart find_mpi_part(const GetVariable& get);

// Whether the program came with an MPI part for any interface: then an MPI on this machine is
// enough.
bool has_parts_for_interfaces();

// The launcher on PATH whose installation has a library of the interface; empty: none.
std::filesystem::path find_mpi_launcher(MpiInterface interface);

// Loads the library that stands in the installation of the launcher, next to the program or where
// the system looks for it, with global symbols. Returns what failed, or "".
std::string load_mpi_library(MpiInterface interface);

}  // namespace trireme
