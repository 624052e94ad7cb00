// Uses a separate process group, so that a terminal's Ctrl-C arrives only once, through us.
#include "operations/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

volatile std::sig_atomic_t first_signal = 0, interrupt_count = 0;

void note_signal(int signal) {
  if (first_signal == 0) first_signal = signal;
  if (signal == SIGINT) interrupt_count = interrupt_count + 1;
}

// Forwards one of the child's output streams to ours.
class Relay {
 public:
  // Without `blame` the child inherits our own stream.
  Relay(Blame* blame, Blame::Stream stream) : blame_(blame), stream_(stream) {
    if (!blame) return;
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Relay() {
    for (const int end : ends_)
      if (end >= 0) ::close(end);
  }
  void become_in_child() const {
    if (blame_) ::dup2(ends_[1], is_error() ? STDERR_FILENO : STDOUT_FILENO);
  }
  pollfd poll_entry() const { return {open_ ? ends_[0] : -1, POLLIN, 0}; }
  void pass_on() {
    FILE* const to = is_error() ? stderr : stdout;
    std::array<char, 1 << 14> buffer;
    for (;;) {
      const ssize_t n = blame_ ? ::read(ends_[0], buffer.data(), buffer.size()) : -1;
      if (n < 0 && blame_ && errno == EINTR) continue;
      if (n == 0) open_ = false;
      if (n <= 0) return;
      blame_->read({buffer.data(), static_cast<std::size_t>(n)}, stream_);
      std::fwrite(buffer.data(), 1, static_cast<std::size_t>(n), to);
      std::fflush(to);
    }
  }
  void close_child_end() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  bool is_error() const { return stream_ == Blame::Stream::error; }

  Blame* blame_;
  Blame::Stream stream_;
  std::array<int, 2> ends_ = {-1, -1};
  bool open_ = true;
};

// Ends a process group whose run has been over for too long: first by SIGTERM, which launchers
// forward to the processes that they can reach, then by SIGKILL.
class OverdueEnd {
 public:
  OverdueEnd(pid_t group, const ChildLimit& limit) : group_(group), limit_(limit) {}

  void look() {
    const Clock::time_point now = Clock::now();
    if (limit_.seconds <= 0 || now < next_look_) return;
    next_look_ = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                           std::clamp(limit_.seconds / 10, 0.05, 2.0)));
    if (came_) {
      if (now > patience_ends_) ::kill(-group_, SIGKILL);
      return;
    }
    if (!limit_.is_over()) {
      over_since_ = Clock::time_point::max();
      return;
    }
    over_since_ = std::min(over_since_, now);
    if (now - over_since_ < std::chrono::duration<double>(limit_.seconds)) return;
    came_ = true;
    patience_ends_ = now + patience;
    ::kill(-group_, SIGTERM);
  }
  bool came() const { return came_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto patience = std::chrono::seconds(5);

  pid_t group_;
  const ChildLimit& limit_;
  Clock::time_point next_look_{}, over_since_ = Clock::time_point::max(), patience_ends_{};
  bool came_ = false;
};

[[noreturn]] void become(const std::vector<std::string>& command, pid_t parent,
                         const std::array<Relay, 2>& relays) {
  ::setpgid(0, 0);
  // Makes the run save and stop if this process is killed.
  ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (::getppid() != parent) ::_exit(1);
  for (const Relay& relay : relays) relay.become_in_child();
  // srun would be stopped on reading from a terminal in the background.
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  std::fprintf(stderr, "trireme: cannot start %s: %s\n", argv[0], std::strerror(errno));
  std::fflush(stderr);
  ::_exit(127);
}

}  // namespace

StopSignals::StopSignals() : handlers_({SIGINT, SIGTERM, SIGHUP, SIGUSR1}, note_signal) {}

int StopSignals::first() {
  return first_signal;
}
int StopSignals::interrupts() {
  return interrupt_count;
}

ChildEnd run_child(const std::vector<std::string>& command, Blame* blame, const ChildLimit& limit,
                   bool reads_output) {
  std::array<Relay, 2> relays = {Relay(blame, Blame::Stream::error),
                                 Relay(reads_output ? blame : nullptr, Blame::Stream::output)};
  // Waits up to 50 ms if there is nothing to forward.
  const auto wait_and_pass_on = [&] {
    std::array<pollfd, 2> entries = {relays[0].poll_entry(), relays[1].poll_entry()};
    ::poll(entries.data(), entries.size(), 50);
    for (Relay& relay : relays) relay.pass_on();
  };
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start a process: {}", std::strerror(errno));
  if (child == 0) become(command, self, relays);
  ::setpgid(child, child);  // also set in the parent: a signal now must find the group
  for (Relay& relay : relays) relay.close_child_end();
  int passed_on = 0;  // signals forwarded: the first one, a second Ctrl-C, a third one
  int status = 0;
  OverdueEnd overdue(child, limit);
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    wait_and_pass_on();
    if (first_signal != 0 && passed_on == 0) passed_on = 1, ::kill(child, SIGUSR1);
    if (interrupt_count > 1 && passed_on == 1) passed_on = 2, ::kill(child, SIGINT);
    if (interrupt_count > 2 && passed_on == 2) passed_on = 3, ::kill(child, SIGKILL);
    overdue.look();
  }
  for (Relay& relay : relays) relay.pass_on();
  ::kill(-child, SIGKILL);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), overdue.came()};
}

}  // namespace trireme
