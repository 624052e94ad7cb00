// A process group of its own, so that a terminal's Ctrl-C comes once and by way of this process.
#include "supervise/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
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

// The standard error of the child on its way to ours.
class ErrorPipe {
 public:
  explicit ErrorPipe(Blame* blame) : blame_(blame) {
    if (!blame) return;
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~ErrorPipe() {
    for (const int end : ends_)
      if (end >= 0) ::close(end);
  }
  void become_in_child() const {
    if (blame_) ::dup2(ends_[1], STDERR_FILENO);
  }
  // Waits up to 50 ms where there is nothing to pass on.
  void wait_and_pass_on() {
    pollfd entry = {open_ ? ends_[0] : -1, POLLIN, 0};
    ::poll(&entry, 1, 50);
    pass_on();
  }
  void pass_on() {
    std::array<char, 1 << 14> buffer;
    for (;;) {
      const ssize_t n = blame_ ? ::read(ends_[0], buffer.data(), buffer.size()) : -1;
      if (n < 0 && blame_ && errno == EINTR) continue;
      if (n == 0) open_ = false;
      if (n <= 0) return;
      blame_->read({buffer.data(), static_cast<std::size_t>(n)});
      std::fwrite(buffer.data(), 1, static_cast<std::size_t>(n), stderr);
      std::fflush(stderr);
    }
  }
  void close_child_end() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  Blame* blame_;
  std::array<int, 2> ends_ = {-1, -1};
  bool open_ = true;
};

[[noreturn]] void become(const std::vector<std::string>& command, pid_t parent,
                         const ErrorPipe& errors) {
  ::setpgid(0, 0);
  // Where this process is killed, the run saves and stops.
  ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (::getppid() != parent) ::_exit(1);
  errors.become_in_child();
  // srun would be stopped where it reads from a terminal that is not its own.
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

int run_child(const std::vector<std::string>& command, Blame* blame) {
  ErrorPipe errors(blame);
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start a process: {}", std::strerror(errno));
  if (child == 0) become(command, self, errors);
  ::setpgid(child, child);  // whoever comes first: a signal now must find the group
  errors.close_child_end();
  int passed_on = 0;  // of: the first signal, a second Ctrl-C, a third one
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    errors.wait_and_pass_on();
    if (first_signal != 0 && passed_on == 0) passed_on = 1, ::kill(child, SIGUSR1);
    if (interrupt_count > 1 && passed_on == 1) passed_on = 2, ::kill(child, SIGINT);
    if (interrupt_count > 2 && passed_on == 2) passed_on = 3, ::kill(child, SIGKILL);
  }
  errors.pass_on();
  ::kill(-child, SIGKILL);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace trireme
