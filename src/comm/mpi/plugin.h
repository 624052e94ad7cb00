// The interface between the program and the plugin that contains everything about MPI.
#pragma once

namespace trireme {

class Wire;

// To be raised whenever Wire, ControlMessage or Place change.
constexpr int wire_interface_version = 4;

constexpr const char* mpi_plugin_file = "libtrireme_mpi.so";
constexpr const char* mpi_plugin_version_symbol = "trireme_wire_interface_version";
constexpr const char* mpi_plugin_library_symbol = "trireme_mpi_library";
constexpr const char* mpi_plugin_open_symbol = "trireme_open_mpi_wire";

using MpiPluginVersion = int (*)();
// "Open MPI v4.1.4"; does not initialise MPI.
using MpiPluginLibrary = const char* (*)();
// Initialises MPI; the caller owns the wire, and destroying it finalizes MPI.
using MpiPluginOpen = Wire* (*)();

}  // namespace trireme
