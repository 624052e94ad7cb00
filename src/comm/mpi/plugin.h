// The border between the program and the plugin that holds everything of MPI.
#pragma once

namespace trireme {

class Wire;

// To be raised whenever Wire, ControlMessage or Place change.
constexpr int wire_interface_version = 1;

constexpr const char* mpi_plugin_file = "libtrireme_mpi.so";
constexpr const char* mpi_plugin_version_symbol = "trireme_wire_interface_version";
constexpr const char* mpi_plugin_open_symbol = "trireme_open_mpi_wire";

using MpiPluginVersion = int (*)();
// Initialises MPI; the caller owns the wire, and destroying it finalizes MPI.
using MpiPluginOpen = Wire* (*)();

}  // namespace trireme
