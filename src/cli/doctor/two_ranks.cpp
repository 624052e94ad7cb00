// One child with a pipe and a limit of time.
#include "cli/doctor/two_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/beside_program.h"
#include "base/error.h"
#include "cli/launch/launch.h"
#include "comm/transport.h"
#include "runtime/join.h"

namespace trireme::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[noreturn]] void become_launcher(const std::vector<std::string>& command, int output) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  prepare_launch(2);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "cannot start %s: %s\n", argv[0], std::strerror(errno));
  std::fflush(stderr);
  ::_exit(1);
}

// All that the child prints until it ends or the time is over; what it prints after that is lost.
std::string read_until(int from, Clock::time_point end) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return text;
    pollfd entry = {from, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) return text;
    if (entry.revents == 0) continue;
    const ssize_t n = ::read(from, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    if (text.size() < 1 << 16) text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

// The first sentences of a launcher, without the lines that it draws around them.
std::string gist(const std::string& text) {
  constexpr std::size_t enough = 300;
  std::istringstream lines(text);
  std::string gist;
  for (std::string line; std::getline(lines, line) && gist.size() < enough;) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    const bool says_nothing = line.find_first_not_of("-=* \r") == line.npos;
    if (begin == line.npos || says_nothing || line.starts_with("trireme: warning:")) continue;
    gist +=
        (gist.empty() ? "" : " ") + line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
  }
  if (gist.size() > enough) gist = gist.substr(0, enough) + "...";
  return gist;
}

std::string end_of(int status) {
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

// Describes how the child failed, or that it was killed at `end`; "" if it succeeded.
std::string wait_for(pid_t child, Clock::time_point end, double limit_s) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() >= end) {
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      return fmt::format("they did not finish within {:.0f} s", limit_s);
    }
    ::usleep(2000);
  }
  return status == 0 ? "" : end_of(status);
}

}  // namespace

TwoRanks start_two_ranks(double limit_s) {
  const std::vector<std::string> command = {mpi_launcher(),        "-n",     "2",
                                            own_command().front(), "doctor", two_ranks_flag};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::milliseconds(static_cast<std::int64_t>(1000 * limit_s));
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start a process: {}", std::strerror(errno));
  if (child == 0) become_launcher(command, ends[1]);
  ::close(ends[1]);
  const std::string printed = read_until(ends[0], end);
  ::close(ends[0]);
  const std::string failure = wait_for(child, end, limit_s);
  TwoRanks result{seconds_since(begin), ""};
  if (failure.empty()) return result;
  const std::string words = gist(printed);
  result.problem = words.empty() ? failure : fmt::format("{}: {}", failure, words);
  return result;
}

void be_one_of_two_ranks() {
  constexpr double timeout_s = 15;
  const JoinedJob job(DeviceKind::cpu, timeout_s);
  Transport& transport = job.transport();
  if (transport.place().size != 2)
    fail("mpirun -n 2 started {} independent processes: its MPI is not the one this build uses",
         transport.place().size);
  run_guarded(transport, [&] { transport.world().barrier("doctor").wait(); });
}

}  // namespace trireme::cli
