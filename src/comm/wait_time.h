// How long a rank has waited for others: what is left of a step's time is its own work.
#pragma once

namespace trireme {

// Seconds that this thread has spent in waits for messages of other ranks so far.
double seconds_waited();

}  // namespace trireme
