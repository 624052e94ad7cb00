// Shared by commands that restart a run.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>

#include "operations/supervisor.h"

namespace trireme::cli {

void add_restart_flags(CLI::App& command, std::optional<int>& restarts, double& wait_s);

// Runs this process's own command under supervision, without the flags of add_restart_flags, and
// ends like supervise_and_exit(). `folder` is run.dir.
[[noreturn]] void restart_own_command(const fs::path& folder, int restarts, double wait_s);

// Ends this process with the exit code of the run. Rejected (exit code 2) in a process started by a
// launcher: each rank would start the run.
[[noreturn]] void supervise_and_exit(const SupervisedRun& run);

}  // namespace trireme::cli
