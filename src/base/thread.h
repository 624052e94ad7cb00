// Starting a thread, with a message that helps where the system refuses one.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

namespace trireme {

// Starts a thread that runs `body`, which must not throw. Where the system starts no more threads
// (a limit on processes, no memory for a stack) it throws an Error with exit code 1 that gives the
// reason and `advice`, for example "lower --workers". The caller joins the threads that it has.
std::thread start_thread(std::string_view advice, std::function<void()> body);

}  // namespace trireme
