// Signals that end a command in the middle of writing files: no partial file is left.
#pragma once

#include <functional>

namespace trireme {

// Runs `work`. SIGINT, SIGTERM or SIGHUP make it end at its next check_stopped() as an error does,
// so that partial files are removed; then the process dies of the signal, as the shell expects. A
// second signal of the same kind ends it immediately; signals that were ignored stay so. One thread
// at a time.
void stoppable(const std::function<void()>& work);

// Throws where such a signal came while stoppable() runs; else does nothing. Every write to a File
// calls it.
void check_stopped();

}  // namespace trireme
