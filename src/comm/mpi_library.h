// Selects the MPI of this machine to use: the ABI of the launcher's MPI, the MPI part for that
// ABI, and the library itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "comm/transport.h"

namespace trireme {

// MPI ABIs. Cray MPICH and Intel MPI share MPICH's.
enum class MpiInterface : std::uint8_t { openmpi, mpich };

// ABI of the launcher's MPI; none if its variables do not tell (srun without PMI, no launcher).
std::optional<MpiInterface> interface_of_launch(const GetVariable& get);

struct MpiPart {
  std::filesystem::path file;             // empty: none
  std::optional<MpiInterface> interface;  // set: load_mpi_library() is required
};

// The MPI part built with this machine's MPI if it fits the launcher, else the one for the
// launcher's ABI. Without a launcher: the former, else the one whose library is found.
MpiPart find_mpi_part(const GetVariable& get);

// Returns whether the program ships an MPI part for any ABI: it then needs
// only an MPI on this machine.
bool has_parts_for_interfaces();

// The launcher on PATH whose installation has a library with this ABI; empty if none.
std::filesystem::path find_mpi_launcher(MpiInterface interface);

// Loads the library from the launcher's installation, from next to the program, or from the
// system's search path, with global symbols. Returns the failure, or "".
std::string load_mpi_library(MpiInterface interface);

}  // namespace trireme
