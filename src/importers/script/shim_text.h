// Bash functions that make up the shims, by subject.
#pragma once

namespace trireme::script {

extern const char* const shim_queues;     // batch systems: their variables, files and scripts
extern const char* const shim_launchers;  // srun, mpirun, containers: finding the command to run

}  // namespace trireme::script
