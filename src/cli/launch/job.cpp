// A single loop over two pipes, one child process and pending signals.
#include "cli/launch/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/signal_handlers.h"
#include "train/watch/interrupt.h"

namespace trireme::cli {
namespace {

constexpr const char* file_variable = "TRIREME_JOB_FILE";
constexpr std::array<const char*, 4> state_words = {"starting", "listening", "interrupted", "done"};

// Time for a launcher to exit after all processes of the run have ended.
std::chrono::duration<double> shutdown_timeout() {
  const char* const text = std::getenv("TRIREME_LAUNCHER_WAIT");
  char* end = nullptr;
  const double seconds = text ? std::strtod(text, &end) : 0;
  return std::chrono::duration<double>(seconds > 0 && *end == '\0' ? seconds : 60);
}

volatile std::sig_atomic_t first_signal = 0, times_interrupted = 0;

void note(int signal) {
  if (first_signal == 0) first_signal = signal;
  if (signal == SIGINT) times_interrupted = times_interrupted + 1;
}

sigset_t hidden_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

// Path of the signal file, next to the state file.
std::string signal_file(const std::string& path) {
  return path + "-signal";
}

// Whether a process has children; true if the system does not tell.
bool has_children(pid_t process) {
  const std::string tasks = fmt::format("/proc/{}/task", process);
  bool told = false;
  std::error_code error;
  for (const auto& task : fs::directory_iterator(tasks, error)) {
    std::ifstream list(task.path() / "children");
    told |= list.is_open();
    if (int child = 0; list >> child) return true;
  }
  return !told;
}

// The file with rank 0's state, locked by all ranks while they live; removed at the end.
class StateFile {
 public:
  StateFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder && *folder ? folder : "/tmp") + "/trireme-job-XXXXXX";
    const int file = ::mkostemp(path_.data(), O_CLOEXEC);
    if (file < 0) fail("cannot create '{}': {}", path_, std::strerror(errno));
    ::close(file);
    ::setenv(file_variable, path_.c_str(), 1);
  }
  ~StateFile() {
    ::unlink(path_.c_str());
    ::unlink(signal_file(path_).c_str());
  }
  // For signal_of_job().
  void tell_signal(int signal) const {
    try {
      const std::string text = fmt::format("{}", signal);
      File(signal_file(path_), File::Mode::create).write(text.data(), text.size());
    } catch (const Error&) {  // the ranks then name the signal that reached them
    }
  }
  // Whether any live process of the job has called install_signal_handlers().
  bool is_held() const {
    const int file = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return true;  // cannot be determined
    const bool held = ::flock(file, LOCK_EX | LOCK_NB) != 0;
    ::close(file);
    return held;
  }
  JobState state() const {
    try {
      const std::string text = read_file(path_, 64);
      for (std::size_t i = 0; i < state_words.size(); ++i) {
        if (text == state_words[i]) return static_cast<JobState>(i);
      }
    } catch (const Error&) {  // somebody cleaned up: as if it were empty
    }
    return JobState::starting;
  }

 private:
  std::string path_;
};

// Removes mpirun's message on forwarding the signal that makes ranks save.
std::string_view without_note(std::string& text) {
  const std::size_t note = text.find(": Forwarding signal ");
  if (note == std::string::npos) return text;
  const std::size_t begin = text.rfind('\n', note) + 1;  // 0 where it is the first line
  const std::size_t end = text.find('\n', note);
  text.erase(begin, end == std::string::npos ? end : end + 1 - begin);
  return text;
}

// Forwards what a child prints to our own output.
class Relay {
 public:
  explicit Relay(int to) : to_(to) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
    from_ = ends[0];
    child_end_ = ends[1];
    ::fcntl(from_, F_SETFL, O_NONBLOCK);
  }
  ~Relay() { ::close(from_); }
  void become_in_child() const { ::dup2(child_end_, to_); }
  void close_child_end() const { ::close(child_end_); }
  pollfd poll_entry() const { return {open_ ? from_ : -1, POLLIN, 0}; }
  // Forwards available data. Data that our output does not accept is dropped.
  void pass_on(bool quiet) {
    std::array<char, 1 << 16> buffer;
    for (;;) {
      const ssize_t n = ::read(from_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n == 0) open_ = false;
      if (n <= 0) return;
      std::string text(buffer.data(), static_cast<std::size_t>(n));
      for (std::string_view rest = without_note(text); !rest.empty() && !quiet;) {
        const ssize_t written = ::write(to_, rest.data(), rest.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        rest.remove_prefix(static_cast<std::size_t>(written));
      }
    }
  }

 private:
  int to_, from_ = -1, child_end_ = -1;
  bool open_ = true;
};

class Job {
 public:
  explicit Job(const std::vector<std::string>& command) { start(command); }

  // Returns the exit code.
  int watch(const std::function<void(const std::string&)>& failed) {
    while (!has_ended()) {
      std::array<pollfd, 2> pipes = {out_.poll_entry(), err_.poll_entry()};
      ::poll(pipes.data(), pipes.size(), 50);
      pass_on_output();
      pass_on_signals();
      end_where_overdue();
    }
    pass_on_output();
    if (file_.state() == JobState::interrupted) return static_cast<int>(ExitCode::interrupted);
    if (given_up_) {
      failed(fmt::format("killed by signal {} ({}) before it could save", +first_signal,
                         strsignal(first_signal)));
      return die_of_signal();
    }
    if (overdue_) {
      if (file_.state() == JobState::done) return static_cast<int>(ExitCode::ok);
      failed("all processes have ended, but mpirun did not");
      return static_cast<int>(ExitCode::failed);
    }
    if (WIFEXITED(status_)) {
      const int code = WEXITSTATUS(status_);
      if (code != 0) {
        failed(fmt::format("a process was killed, or ended without a message: exit code {}", code));
      }
      return code;
    }
    failed(fmt::format("mpirun was ended by signal {} ({})", WTERMSIG(status_),
                       strsignal(WTERMSIG(status_))));
    std::fprintf(stderr, "trireme: mpirun was ended by signal %d (%s)\n", WTERMSIG(status_),
                 strsignal(WTERMSIG(status_)));
    return static_cast<int>(ExitCode::failed);
  }

 private:
  void start(const std::vector<std::string>& command) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t self = ::getpid();
    launcher_ = ::fork();
    if (launcher_ < 0) fail("cannot start a process: {}", std::strerror(errno));
    if (launcher_ > 0) {
      out_.close_child_end();
      err_.close_child_end();
      return;
    }
    // Uses a process group that a terminal's Ctrl-C does not reach, and blocks SIGTERM, so that one
    // sent to every process of the job (systemd, scancel) does not reach mpirun, which would kill
    // ranks while they save. Ranks unblock it (install_signal_handlers; Open MPI does so for them).
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGINT);
    if (::getppid() != self) ::_exit(static_cast<int>(ExitCode::failed));
    const sigset_t hidden = hidden_signals();
    ::sigprocmask(SIG_BLOCK, &hidden, nullptr);
    out_.become_in_child();
    err_.become_in_child();
    ::execvp(argv[0], argv.data());
    std::fprintf(stderr,
                 "trireme: cannot start %s: %s. Install an MPI (Debian: openmpi-bin) or load its "
                 "module\n",
                 argv[0], std::strerror(errno));
    std::fflush(stderr);
    ::_exit(static_cast<int>(ExitCode::failed));
  }

  bool has_ended() {
    const pid_t ended = ::waitpid(launcher_, &status_, WNOHANG);
    return ended == launcher_ || (ended < 0 && errno != EINTR);
  }

  void pass_on_output() {
    out_.pass_on(given_up_);
    err_.pass_on(given_up_);
  }

  void pass_on_signals() {
    const auto now = std::chrono::steady_clock::now();
    if (first_signal != 0 && !asked_) {
      asked_ = true;
      if (file_.state() == JobState::starting) {
        give_up(SIGINT);
      } else {
        file_.tell_signal(first_signal);
        ::kill(launcher_, SIGUSR1);  // mpirun passes it on
        say(first_signal == SIGINT ? stopping_words : signalled_words);
      }
    }
    if (times_interrupted > 1 && !given_up_) {
      say("\ntrireme: killing the processes immediately\n");
      give_up(SIGINT);
    }
    if (given_up_ && (times_interrupted > 2 || now > patience_ends_)) ::kill(launcher_, SIGKILL);
  }

  static void say(std::string_view words) {
    std::fwrite(words.data(), 1, words.size(), stderr);
    std::fflush(stderr);
  }

  // Ignores the launcher's error messages from now on.
  void give_up(int signal) {
    pass_on_output();
    given_up_ = true;
    patience_ends_ = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ::kill(launcher_, signal);
  }

  // A launcher may wait forever for dead ranks: sends SIGTERM, and SIGKILL a second later.
  void end_where_overdue() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look_) return;
    next_look_ = now + std::chrono::seconds(1);
    if (file_.is_held()) {
      was_held_ = true;
      held_until_ = now;
    }
    // A rank that never held it may not see the file, or has not come so far.
    if (!was_held_ && has_children(launcher_)) held_until_ = now;
    if (now - held_until_ < shutdown_timeout_) return;
    if (!overdue_) {
      std::fprintf(
          stderr, "trireme: mpirun has been running for %lld s without a process of the run\n",
          static_cast<long long>(
              std::chrono::duration_cast<std::chrono::seconds>(now - held_until_).count()));
    }
    ::kill(launcher_, overdue_ ? SIGKILL : SIGTERM);
    overdue_ = true;
  }

  int die_of_signal() const {
    std::fputs("trireme: stopped; existing checkpoints are untouched\n", stderr);
    std::fflush(nullptr);
    std::signal(first_signal, SIG_DFL);
    std::raise(first_signal);
    return 128 + first_signal;
  }

  StateFile file_;
  Relay out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  pid_t launcher_ = 0;
  int status_ = 0;
  bool asked_ = false, given_up_ = false;
  bool was_held_ = false, overdue_ = false;
  const std::chrono::duration<double> shutdown_timeout_ = shutdown_timeout();
  std::chrono::steady_clock::time_point patience_ends_, next_look_;
  std::chrono::steady_clock::time_point held_until_ = std::chrono::steady_clock::now();
};

}  // namespace

bool is_in_job() {
  return std::getenv(file_variable) != nullptr;
}

void notify_job(JobState state) {
  const char* path = std::getenv(file_variable);
  if (!path) return;
  const int file = ::open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (file < 0) return;
  const char* word = state_words[static_cast<std::size_t>(state)];
  (void)!::write(file, word, std::strlen(word));
  ::close(file);
}

int signal_of_job(int signal) {
  const char* path = std::getenv(file_variable);
  if (!path || signal != SIGUSR1) return signal;
  try {
    const int told = std::atoi(read_file(signal_file(path), 16).c_str());
    return told > 0 ? told : signal;
  } catch (const Error&) {
    return signal;
  }
}

void install_signal_handlers() {
  const char* path = std::getenv(file_variable);
  if (!path) return;
  // Locked while this process lives, however it ends. Readers lock it only for a moment.
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  if (file >= 0) ::flock(file, LOCK_SH);
  const sigset_t hidden = hidden_signals();
  ::sigprocmask(SIG_UNBLOCK, &hidden, nullptr);
}

void run_job(const std::vector<std::string>& command,
             const std::function<void(const std::string&)>& failed) {
  int code = 0;
  {
    const SignalHandlers handlers({SIGINT, SIGTERM, SIGHUP, SIGUSR1}, note);
    Job job(command);
    code = job.watch(failed);
  }
  std::exit(code);
}

}  // namespace trireme::cli
