// Starts threads, with a helpful message if the system refuses.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

namespace trireme {

// Starts a thread that runs `body`, which must not throw. If the system cannot start another thread
// (process limit, no memory for the stack), throws an Error with exit code 1 that has the reason
// and `advice`, for example "lower --workers". The caller joins threads started earlier.
std::thread start_thread(std::string_view advice, std::function<void()> body);

}  // namespace trireme
