// Three processes: the caller waits; its child sets up the isolation; the grandchild, the first in
// its PID namespace if there is one, runs the program, enforces limits and reports.
#include "importers/script/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/stop.h"
#include "importers/script/landlock.h"
#include "importers/script/processes.h"
#include "importers/script/sandbox_files.h"
#include "importers/script/system_calls.h"

namespace trireme::script {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kLargestFile = 64 << 20;
constexpr std::uint64_t kMostFiles = 256 << 20;
constexpr std::uint64_t kMostAddresses = std::uint64_t{16} << 30;
constexpr std::size_t kMostProcesses = 500;
constexpr std::size_t kMostOutput = 16 << 10;
constexpr std::size_t kMostCalls = 1000;
constexpr std::size_t kLongestReport = 256 << 20;
constexpr std::chrono::seconds kAfterwards{2};  // for processes that outlive the script
constexpr int kClock = 6;                       // wall-clock limit / CPU time limit

bool write_text(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return done;
}

// Identity map of all users of this process's user namespace. Only a process outside of the new
// namespace may write it: for root, whose scripts may be in folders of any user.
std::string every_user(const char* map) {
  std::ifstream file(map);
  std::string text;
  for (std::uint64_t inside = 0, outside = 0, count = 0; file >> inside >> outside >> count;)
    text += fmt::format("{} {} {}\n", inside, inside, count);
  return text;
}

// Waits for a byte, then writes the user map of the parent's new namespace.
[[noreturn]] void map_users_of_parent(int signal, pid_t parent) {
  const std::string users = every_user("/proc/self/uid_map");
  const std::string groups = every_user("/proc/self/gid_map");
  char byte = 0;
  const bool done = read(signal, &byte, 1) == 1 &&
                    write_text(fmt::format("/proc/{}/uid_map", parent).c_str(), users) &&
                    write_text(fmt::format("/proc/{}/gid_map", parent).c_str(), groups);
  _exit(done ? 0 : 1);
}

// Creates namespaces in which the process keeps its user.
bool unshare_with_user(int flags) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const pid_t parent = getpid();
  const pid_t helper = user == 0 ? fork() : -1;
  if (helper == 0) {
    close(ends[1]);
    map_users_of_parent(ends[0], parent);
  }
  const bool apart = unshare(CLONE_NEWUSER | flags) == 0;
  const int problem = errno;
  bool mapped = false;
  if (helper > 0) {
    int status = 1;
    mapped = apart && write(ends[1], "x", 1) == 1;
    close(ends[1]);
    ends[1] = -1;
    mapped = waitpid(helper, &status, 0) == helper && mapped && status == 0;
  }
  close(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
  errno = problem;
  if (!apart || mapped) return apart;
  write_text("/proc/self/setgroups", "deny");
  return write_text("/proc/self/uid_map", fmt::format("{} {} 1", user, user)) &&
         write_text("/proc/self/gid_map", fmt::format("{} {} 1", group, group));
}

// State of a process after isolate().
struct Isolated {
  std::string problem;             // why this isolation is not available; "": active
  std::vector<fs::path> writable;  // folders whose changes are discarded
  bool gaps = false;               // namespaces alone do not protect everything
};

Isolated isolate(const SandboxRequest& request) {
  switch (request.isolation) {
    case Isolation::overlay: {
      if (!unshare_with_user(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC))
        return {fmt::format("namespaces: {}", std::strerror(errno)), {}};
      Layered layers = layer_files(request.scratch, request.shown);
      return {std::move(layers.problem), std::move(layers.writable), layers.gaps};
    }
    case Isolation::landlock:
      return {"", {request.scratch / "run"}, true};
    case Isolation::none:
      break;
  }
  return {};
}

// Final restrictions, in the program's own process. Returns "" or the error.
std::string confine(Isolation isolation, const Isolated& isolated) {
  if (isolation == Isolation::none) return "";
  const bool layered = isolation == Isolation::overlay;
  // If folders could not be overlaid, Landlock also blocks the pipes in them. Its version 1 cannot
  // allow moving files between folders.
  if (!layered || (isolated.gaps && landlock_version() >= 2)) {
    const std::string problem = lock_files(isolated.writable);
    if (!problem.empty()) return problem;
  }
  return filter_calls({.own_processes = layered, .own_files = layered});
}

// ---- in the process that enforces the limits ----

void append(std::string& report, const std::string& text) {
  const std::uint64_t size = text.size();
  report.append(reinterpret_cast<const char*>(&size), sizeof size);
  report += text;
}

// The program may have replaced a file by a link, a pipe or a device.
bool is_plain_file(const fs::path& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::string file_text(const fs::path& path, std::size_t most) {
  if (!is_plain_file(path)) return "";
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  const std::size_t kept = std::min(size, most);
  file.seekg(static_cast<std::streamoff>(size - kept));
  std::string text(kept, '\0');
  file.read(text.data(), static_cast<std::streamsize>(kept));
  return text;
}

// Whether /proc/sys/kernel/pid_max is per namespace: since Linux 6.14.
bool has_own_pid_limit() {
  utsname system{};
  int major = 0, minor = 0;
  if (uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2)
    return false;
  return major > 6 || (major == 6 && minor >= 14);
}

// Number of this user's processes, since RLIMIT_NPROC counts them all.
rlim_t own_processes() {
  rlim_t count = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    struct stat status {};
    const std::string name = entry.path().filename();
    if (name[0] >= '0' && name[0] <= '9' && stat(entry.path().c_str(), &status) == 0)
      count += status.st_uid == geteuid() ? 1 : 0;
  }
  return count;
}

// Parameters for starting the program, from the process that enforces its limits.
struct Start {
  Isolated isolated;
  rlim_t most;  // process limit; the kernel does not enforce it for root
  int problem;  // pipe for errors in confining the program
};

[[noreturn]] void run_program(const SandboxRequest& request, const fs::path& output,
                              const Start& start) {
  setpgid(0, 0);
  // The process that enforces the limits must have priority.
  setpriority(PRIO_PROCESS, 0, 10);
  const rlimit processes{start.most, start.most};
  setrlimit(RLIMIT_NPROC, &processes);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int input = open("/dev/null", O_RDONLY);
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  if (file < 0) _exit(126);
  dup2(input, 0);
  dup2(file, 1);
  dup2(file, 2);
  const rlimit size{kLargestFile, kLargestFile}, none{0, 0};
  setrlimit(RLIMIT_FSIZE, &size);
  setrlimit(RLIMIT_CORE, &none);
  for (int signal = 1; signal < 32; ++signal) std::signal(signal, SIG_DFL);
  sigset_t nothing;
  sigemptyset(&nothing);
  sigprocmask(SIG_SETMASK, &nothing, nullptr);
  std::vector<char*> argv, environment;
  for (const std::string& word : request.command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& word : request.environment)
    environment.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  const std::string refused = confine(request.isolation, start.isolated);
  if (!refused.empty()) {
    [[maybe_unused]] const ssize_t told = write(start.problem, refused.data(), refused.size());
    _exit(126);
  }
  for (int fd = 3; syscall(SYS_close_range, 3, ~0U, 0) != 0 && fd < 1024; ++fd) close(fd);
  const rlimit addresses{kMostAddresses, kMostAddresses};
  setrlimit(RLIMIT_AS, &addresses);
  if (chdir(request.folder.c_str()) == 0) execve(argv[0], argv.data(), environment.data());
  const std::string problem = fmt::format("cannot start {} in {}: {}\n", argv[0],
                                          request.folder.string(), std::strerror(errno));
  [[maybe_unused]] const ssize_t written = write(2, problem.data(), problem.size());
  _exit(126);
}

// Total size of all files below a folder.
std::uint64_t size_of_files(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    struct stat status {};
    if (lstat(at->path().c_str(), &status) == 0)
      bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

// Two time limits: CPU time, which does not depend on other load on the machine, and wall-clock
// time, for programs that only wait.
struct Deadline {
  std::chrono::milliseconds processors{};
  Clock::time_point clock;

  Deadline(std::chrono::milliseconds limit, std::chrono::milliseconds used)
      : processors(used + limit), clock(Clock::now() + kClock * limit) {}
  void bring_forward(const Deadline& other) {
    processors = std::min(processors, other.processors);
    clock = std::min(clock, other.clock);
  }
  // Returns "" or the limit that was exceeded.
  std::string passed(std::chrono::milliseconds limit, std::chrono::milliseconds used) const {
    const double seconds = static_cast<double>(limit.count()) / 1000;
    if (used > processors)
      return fmt::format("it did not finish within {} s of processor time (the limit of --timeout)",
                         seconds);
    if (Clock::now() > clock)
      return fmt::format("it did not finish within {} s ({} times the limit of --timeout)",
                         kClock * seconds, kClock);
    return "";
  }
};

// The limit that the program exceeded, or "".
std::string passed_limit(const SandboxRequest& request, const Usage& usage) {
  if (usage.processes > kMostProcesses)
    return fmt::format("it started more than {} processes", kMostProcesses);
  if (usage.bytes > request.memory)
    return fmt::format("it used more than {} MiB of memory", request.memory >> 20);
  // An overlay's memory has its own size limit.
  if (request.isolation == Isolation::landlock &&
      size_of_files(request.scratch / "run") > kMostFiles)
    return fmt::format("it wrote more than {} MiB", kMostFiles >> 20);
  return "";
}

// Kills all remaining processes: those of a namespace at once, else the children repeatedly until
// none is left.
void end_all(bool alone, pid_t program) {
  if (alone) {
    kill(-1, SIGKILL);
  } else {
    kill(-program, SIGKILL);
    const std::string list = fmt::format("/proc/self/task/{}/children", getpid());
    for (int round = 0; round < 1000; ++round) {
      std::ifstream children(list);
      bool any = false;
      for (pid_t child = 0; children >> child; any = true) kill(child, SIGKILL);
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      if (!any) break;
    }
  }
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

// Reads a pipe until its other end is closed.
std::string read_all(int fd) {
  std::string text;
  char buffer[256];
  for (ssize_t count = 0; (count = read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  return text;
}

void send_report(int fd, const std::string& report) {
  for (std::size_t at = 0; at < report.size();) {
    const ssize_t written = write(fd, report.data() + at, report.size() - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
}

[[noreturn]] void report_not_started(int fd, const std::string& problem) {
  std::string report;
  append(report, "");
  append(report, problem);
  send_report(fd, report);
  _exit(1);
}

[[noreturn]] void keep_limits(const SandboxRequest& request, int report_fd, Start start) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  const bool alone = request.isolation == Isolation::overlay;
  if (alone) {
    const std::string problem = mount_proc(has_own_pid_limit() ? kMostProcesses + 100 : 0);
    if (!problem.empty()) report_not_started(report_fd, problem);
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) report_not_started(report_fd, std::strerror(errno));
  start.problem = ends[1];
  const fs::path run = request.scratch / "run";
  const pid_t program = fork();
  if (program == 0) run_program(request, run / "output", start);
  close(ends[1]);
  const std::string refused = read_all(ends[0]);
  if (program < 0 || !refused.empty())
    report_not_started(report_fd, program < 0 ? std::strerror(errno) : refused);
  int status = 0;
  std::string problem;
  bool ended = false;
  Deadline deadline(request.limit, {});
  for (int rounds = 0; problem.empty(); ++rounds) {
    int one = 0;
    const pid_t child = waitpid(-1, &one, WNOHANG);
    if (child < 0) break;
    if (child == program) {
      ended = true;
      status = WIFEXITED(one) ? WEXITSTATUS(one) : 128 + WTERMSIG(one);
      deadline.bring_forward({kAfterwards, usage_below(getpid()).time});
    }
    if (child > 0) continue;
    if (rounds % 4 == 0) {
      const Usage usage = usage_below(getpid());
      const std::string late = deadline.passed(request.limit, usage.time);
      if (ended && !late.empty()) break;
      problem = late.empty() ? passed_limit(request, usage) : late;
    }
    usleep(5000);
  }
  end_all(alone, program);
  const auto call = [&](std::size_t i) { return run / "calls" / fmt::format("{}", i); };
  if (problem.empty() && is_plain_file(call(kMostCalls - 1)))
    problem = fmt::format("only its first {} program calls were read", kMostCalls);
  std::string report;
  append(report, fmt::format("{}", status));
  append(report, problem);
  append(report, file_text(run / "output", kMostOutput));
  for (std::size_t i = 0; i < kMostCalls; ++i) {
    if (!is_plain_file(call(i))) break;
    append(report, file_text(call(i), 16 << 20));
  }
  send_report(report_fd, report);
  _exit(0);
}

// ---- in the process that sets up the isolation ----

[[noreturn]] void isolate_and_run(const SandboxRequest& request, int report_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  const rlim_t most = own_processes() + kMostProcesses;
  Isolated isolated = isolate(request);
  if (!isolated.problem.empty()) report_not_started(report_fd, isolated.problem);
  const pid_t keeper = fork();
  if (keeper == 0) keep_limits(request, report_fd, {std::move(isolated), most, -1});
  if (keeper < 0) report_not_started(report_fd, std::strerror(errno));
  close(report_fd);
  waitpid(keeper, nullptr, 0);
  _exit(0);
}

// ---- in the caller ----

// A child process, killed if the caller returns early.
struct Child {
  pid_t pid;
  int report;
  ~Child() {
    close(report);
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
};

std::string read_report(int fd, Clock::time_point deadline) {
  std::string report;
  std::vector<char> buffer(1 << 16);
  while (Clock::now() < deadline && report.size() < kLongestReport) {
    check_stopped();
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count == 0) break;
    if (count > 0) report.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return report;
}

std::vector<std::string> parts_of(const std::string& report) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at + 8 <= report.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, report.data() + at, sizeof size);
    at += sizeof size;
    if (size > report.size() - at) break;
    parts.push_back(report.substr(at, size));
    at += size;
  }
  return parts;
}

}  // namespace

SandboxResult run_in_sandbox(const SandboxRequest& request) {
  make_folders(request.scratch / "run" / "calls");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) fail("cannot start a process: {}", std::strerror(errno));
  if (child == 0) isolate_and_run(request, ends[1]);
  const Child guard{child, ends[0]};
  close(ends[1]);
  const std::string report =
      read_report(ends[0], Clock::now() + kClock * request.limit + std::chrono::seconds(20));
  std::vector<std::string> parts = parts_of(report);
  SandboxResult result;
  if (parts.size() < 2) {
    result.problem = "the process that enforces its limits was killed";
    return result;
  }
  result.problem = parts[1];
  result.started = !parts[0].empty();
  if (!result.started) return result;
  result.status = std::atoi(parts[0].c_str());
  if (parts.size() > 2) result.output = parts[2];
  for (std::size_t i = 3; i < parts.size(); ++i) result.calls.push_back(std::move(parts[i]));
  return result;
}

}  // namespace trireme::script
