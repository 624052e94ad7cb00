// Time a rank has waited for others; the rest of a step's time is its own work.
#pragma once

namespace trireme {

// Seconds this thread has spent waiting for messages of other ranks.
double seconds_waited();

}  // namespace trireme
