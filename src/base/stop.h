// Stops a command on a signal while it writes files, without leaving partial files.
#pragma once

#include <functional>

namespace trireme {

// Runs `work`. After SIGINT, SIGTERM or SIGHUP the next check_stopped() throws, so that partial
// files are removed; then the process terminates by that signal, as the shell expects. A second
// signal of the same kind terminates it immediately; ignored signals stay ignored. Only one thread
// at a time may call this.
void stoppable(const std::function<void()>& work);

// Throws if such a signal arrived during stoppable(); otherwise does nothing. Every write to a File
// calls it.
void check_stopped();

}  // namespace trireme
