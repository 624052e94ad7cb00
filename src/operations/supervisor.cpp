// The loop of starts, and the records written between them.
#include "operations/supervisor.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "operations/blame.h"
#include "operations/child.h"
#include "operations/host_list.h"
#include "operations/mpi_leftovers.h"
#include "operations/node_probe.h"
#include "train/reports/console.h"
#include "train/run/run_lock.h"
#include "train/run/run_status.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Time for ranks that outlived their launcher to release the lock of the run's folder.
constexpr double shutdown_timeout_s = 60;

// A temporary file, removed at the end.
class HostsFile {
 public:
  HostsFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder && *folder ? folder : "/tmp") + "/trireme-hosts-XXXXXX";
    const int file = ::mkostemp(path_.data(), O_CLOEXEC);
    if (file < 0) fail("cannot create '{}'", path_);
    ::close(file);
  }
  ~HostsFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::int64_t newest_step(const fs::path& folder) {
  const std::vector<std::int64_t> steps = saved_steps(folder / "checkpoints");
  return steps.empty() ? 0 : steps.back();
}

// Formats "step 8 of the local checkpoints, or from step 5 where one is lost".
std::string where_from(const Ending& ending) {
  const std::string shared =
      ending.saved > 0 ? fmt::format("step {}", ending.saved) : "the beginning";
  if (ending.saved_locally <= ending.saved) return shared;
  return fmt::format("step {} of the local checkpoints, or from {} where one is lost",
                     ending.saved_locally, shared);
}

std::string status_text(const fs::path& folder) {
  const fs::path path = folder / "status.json";
  std::error_code error;
  return fs::exists(path, error) ? read_file(path, 1 << 20) : "";
}

class Supervisor {
 public:
  explicit Supervisor(const SupervisedRun& run)
      : run_(run), policy_(run.limits, newest_step(run.folder)) {
    if (run.hosts.empty()) return;
    hosts_.emplace(run.hosts, run.nodes);
    hosts_file_.emplace();
  }

  int loop() {
    for (;;) {
      Blame blame;
      const Ending ending = start(blame);
      const Decision decision = policy_.after(ending);
      if (decision.action == Decision::Action::end) return code_of(ending);
      note_in_status(decision.why);
      if (decision.action == Decision::Action::give_up) {
        give_up(ending, decision.why);
        return ending.code > 0 ? ending.code : static_cast<int>(ExitCode::failed);
      }
      announce(ending, decision, failed_hosts(ending, blame));
      if (!wait(decision.wait_s)) return code_of_interrupted_wait();
      // Killed processes leave shared memory behind.
      remove_leftovers(find_mpi_leftovers(started_));
    }
  }

 private:
  Ending start(Blame& blame) {
    const std::string before = status_text(run_.folder);
    const std::uintmax_t log_before = log_size();
    const auto begin = Clock::now();
    started_ = std::time(nullptr);
    if (hosts_) write_file_durably(hosts_file_->path(), hosts_->text());
    bool has_begun = false;
    const auto is_over = [&] {
      const std::optional<RunStatus> status = status_since(before);
      has_begun |= status || blame.a_rank_ended() || log_size() != log_before;
      const std::chrono::duration<double> since = Clock::now() - begin;
      if (hosts_ && !has_begun && since.count() > run_.start_limit_s) return true;
      const bool over = blame.a_rank_ended() || (status && status->state != "running");
      return over && !is_locked(run_.folder);
    };
    Ending ending;
    const ChildEnd end = run_child(with_hosts(run_.command), reads_errors() ? &blame : nullptr,
                                   {is_over, run_.launcher_limit_s}, hosts_.has_value());
    ending.code = end.code;
    ending.asked = StopSignals::first() != 0;
    ending.saved = newest_step(run_.folder);
    if (const std::optional<RunStatus> status = status_since(before)) {
      ending.state = status->state;
      ending.reason = status->reason;
      ending.saved_locally = status->saved_locally;
    }
    ending.hung = end.hung;
    ending.begun = has_begun || ending.state != "";
    if (!end.hung) return ending;
    const std::string& launcher = run_.command.front();
    say(ending.begun
            ? fmt::format(
                  "the run has ended, but its launcher {} did not exit within {:.3g} s: killed it",
                  launcher, run_.launcher_limit_s)
            : fmt::format("{} did not start the run within {:.4g} s (--start-wait): killed it",
                          launcher, run_.start_limit_s));
    ending.code = code_without_launcher(ending.state);
    return ending;
  }

  // Returns the status written by this start; an older one is ignored.
  std::optional<RunStatus> status_since(const std::string& before) const {
    const std::string now = status_text(run_.folder);
    return now == before ? std::nullopt : parse_status(now);
  }

  std::uintmax_t log_size() const {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(run_.folder / "log.txt", error);
    return error ? 0 : size;
  }

  bool reads_errors() const { return hosts_ || run_.reads_errors; }

  std::vector<std::string> with_hosts(std::vector<std::string> command) const {
    if (!hosts_) return command;
    for (std::string& word : command)
      for (std::size_t at; (at = word.find(hosts_word)) != std::string::npos;)
        word.replace(at, hosts_word.size(), hosts_file_->path());
    return command;
  }

  static int code_without_launcher(const std::string& state) {
    if (state == "done" || state == "stopped") return static_cast<int>(ExitCode::ok);
    return static_cast<int>(state == "interrupted" ? ExitCode::interrupted : ExitCode::failed);
  }

  // Returns the failed hosts: according to messages of launcher and ranks, or to the run's status,
  // or, if neither names one before the run has begun, to a check of the nodes.
  std::vector<std::string> failed_hosts(const Ending& ending, const Blame& blame) {
    if (!hosts_) return {};
    std::vector<std::string> hosts = blame.hosts();
    const bool is_certain = !hosts.empty() && !blame.is_suspicion();
    if (hosts.empty()) hosts = hosts_suspected_in(ending.reason);
    if (hosts.empty() && (ending.state.empty() || ending.hung)) hosts = hosts_that_do_not_answer();
    if (!is_certain) return or_the_one_that_stayed(std::move(hosts));
    suspected_pair_.clear();
    return hosts;
  }

  // If two hosts cannot reach each other, either may be at fault. If the next start fails in the
  // same way with one of them replaced, the remaining one is the bad one.
  std::vector<std::string> or_the_one_that_stayed(std::vector<std::string> hosts) {
    const bool one_of_two = hosts_->used() == 2 && hosts.size() == 1 && hosts_->uses(hosts.front());
    const std::vector<std::string> pair =
        one_of_two ? hosts_->used_but_not({}) : std::vector<std::string>{};
    std::vector<std::string> stayed;
    for (const std::string& host : pair)
      if (std::ranges::count(suspected_pair_, host) > 0) stayed.push_back(host);
    suspected_pair_ = pair;
    return stayed.size() == 1 && policy_.failures() > 1 ? stayed : hosts;
  }

  std::vector<std::string> hosts_that_do_not_answer() {
    const HostsFile good;
    const std::vector<std::string> probe = probe_command(run_.command, good.path(), run_.folder);
    if (probe.empty() || hosts_->spare() == 0) return {};
    say("checking which nodes respond, with trireme doctor --nodes");
    std::vector<std::string> found;
    try_to([&] {
      Blame blame;
      const auto begin = Clock::now();
      const auto is_late = [&] { return Clock::now() - begin > std::chrono::seconds(90); };
      const ChildEnd end = run_child(with_hosts(probe), &blame, {is_late, 1e-3}, true);
      std::istringstream names(read_file(good.path(), 1 << 26));
      std::vector<std::string> answer;
      for (std::string name; std::getline(names, name);) answer.push_back(name);
      found = answer.empty() || end.code == 0 ? blame.hosts() : hosts_->used_but_not(answer);
      // The ranks of two hosts that cannot reach each other may not know each other's names.
      if (found.empty() && end.code != 0 && hosts_->used() == 2)
        found.push_back(hosts_->used_but_not({}).back());
    });
    return found;
  }

  int code_of(const Ending& ending) const {
    // The launcher may have lost a node, or a rank that did not finalize MPI, after the run's end.
    if (const int code = code_without_launcher(ending.state);
        code != static_cast<int>(ExitCode::failed))
      return code;
    if (ending.asked && ending.code < 0) die_as_asked();
    return ending.code >= 0 ? ending.code : static_cast<int>(ExitCode::failed);
  }

  void announce(const Ending& ending, const Decision& decision,
                const std::vector<std::string>& hosts) {
    ++restarts_;
    std::string text = fmt::format("the run failed ({}); restart {}", decision.why, restarts_);
    if (decision.wait_s > 0) text += fmt::format(" in {:.3g} s", decision.wait_s);
    text += " from " + where_from(ending);
    std::string stays;
    for (const std::string& host : hosts_ ? hosts_->replace(hosts) : std::vector<std::string>{}) {
      if (hosts_->uses(host))
        stays += fmt::format("; the node {} failed, and no spare node is left to replace it", host);
      else
        text += fmt::format(", without the node {}", host);
    }
    text += stays;
    say(text);
    nlohmann::ordered_json event = {{"event", "restart"},
                                    {"restart", restarts_},
                                    {"failure", decision.why},
                                    {"saved_step", ending.saved},
                                    {"wait_seconds", decision.wait_s}};
    if (ending.saved_locally > 0) event["locally_saved_step"] = ending.saved_locally;
    if (!hosts.empty()) event["failed_host"] = fmt::format("{}", fmt::join(hosts, ", "));
    record(std::move(event));
  }

  void give_up(const Ending& ending, const std::string& why) {
    // The input error has just been printed, and nothing has been tried yet.
    if (ending.code == static_cast<int>(ExitCode::bad_input) && restarts_ == 0) return;
    say("the run is not restarted: " + why);
    record({{"event", "gave up"}, {"failure", why}, {"saved_step", ending.saved}});
  }

  // Returns false if a signal arrived.
  static bool wait(double seconds, const fs::path& folder) {
    const auto begin = Clock::now();
    const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    const auto still = [&] {
      return since() < seconds || (since() < seconds + shutdown_timeout_s && is_locked(folder));
    };
    while (StopSignals::first() == 0 && still())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return StopSignals::first() == 0;
  }
  bool wait(double seconds) const { return wait(seconds, run_.folder); }

  // Ends as if the signal had come a moment earlier, while the run could still save.
  int code_of_interrupted_wait() {
    say("stopped by a signal between two starts; existing checkpoints are untouched");
    std::optional<RunStatus> status = parse_status(status_text(run_.folder));
    if (newest_step(run_.folder) == 0 || !status) die_as_asked();
    status->state = "interrupted";
    write_status(run_.folder / "status.json", *status, true);
    return static_cast<int>(ExitCode::interrupted);
  }

  [[noreturn]] static void die_as_asked() {
    const int signal = StopSignals::first();
    std::fflush(nullptr);
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    std::_Exit(128 + signal);
  }

  void note_in_status(const std::string& why) {
    try_to([&] {
      if (!is_locked(run_.folder)) mark_failed(run_.folder, why);
    });
  }

  void say(const std::string& text) {
    std::fprintf(stderr, "trireme: %s\n", text.c_str());
    std::fflush(stderr);
    append("log.txt", fmt::format("{} trireme: {}\n", time_of_day(), text));
  }

  void record(nlohmann::ordered_json event) {
    event["time"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    append("events.jsonl",
           event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

  // Does nothing if the run has not yet created its folder.
  void append(const char* name, const std::string& text) {
    std::error_code error;
    if (!fs::exists(run_.folder / "config.toml", error)) return;
    try_to([&] { File(run_.folder / name, File::Mode::append).write(text.data(), text.size()); });
  }

  // A full disk must not end the supervisor.
  static void try_to(const std::function<void()>& body) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "trireme: warning: %s\n", error.what());
    }
  }

  const SupervisedRun& run_;
  RestartPolicy policy_;
  std::optional<HostList> hosts_;
  std::optional<HostsFile> hosts_file_;
  std::time_t started_ = 0;
  int restarts_ = 0;
  // The two hosts, one of which was suspected after the previous start.
  std::vector<std::string> suspected_pair_;
};

void check(const SupervisedRun& run) {
  bool asked = false;
  for (const std::string& word : run.command) asked |= word.find(hosts_word) != std::string::npos;
  if (run.hosts.empty() && asked)
    fail_input("the command contains {}, but no --hosts FILE was given", hosts_word);
  if (!run.hosts.empty() && !asked)
    fail_input(
        "--hosts {}: expected {} in the command as a placeholder for the host file, as in mpirun "
        "--hostfile {}",
        run.hosts, hosts_word, hosts_word);
  if (run.hosts.empty() && run.nodes > 0) fail_input("--nodes {} requires --hosts", run.nodes);
}

}  // namespace

int supervise(const SupervisedRun& run) {
  check(run);
  const StopSignals signals;
  return Supervisor(run).loop();
}

}  // namespace trireme
