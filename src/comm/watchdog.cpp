// Ends the job on failure: the ranks agree on one of them, which prints the
// message and ends them all.
//
// Election of the reporter: a rank that wants to print asks the first rank that answers, in rank
// order; each rank grants only one rank. Any polling thread of the asked rank sends the answer, so
// computing ranks answer too, but stopped or dead ones do not. The reporter notifies all others
// first, since it no longer answers once it ends the job.
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/engine.h"
#include "comm/rank_list.h"
#include "comm/running_time.h"
#include "comm/suspects.h"

namespace trireme {
namespace {

enum Kind : std::uint8_t { claim, grant, denial, release, reporting, query, answer };

constexpr int max_arbiters = 4;   // consecutive ranks that do not answer before a rank just prints
constexpr double silence_s = 10;  // for the rank that prints to end the job
constexpr std::size_t max_described = 8;           // ranks that a message describes one by one
constexpr auto reading = std::chrono::seconds(2);  // for a launcher to take a message from its pipe
constexpr auto a_while = std::chrono::seconds(5);  // for the last output, and for releasing others
constexpr auto passing_on = std::chrono::milliseconds(100);  // and to hand it to the user

// Runs in a thread that is abandoned if it does not return, since a file system or device may be
// what hangs. Exceptions are dropped.
void try_for_a_while(std::function<void()> body) {
  std::promise<void> done;
  std::future<void> end = done.get_future();
  std::thread([body = std::move(body), done = std::move(done)]() mutable {
    try {
      body();
    } catch (const std::exception&) {
    }
    done.set_value();
  }).detach();
  end.wait_for(a_while);
}

// Launchers read the ranks' output from pipes and drop the rest when a job is aborted, so wait
// until the message has been read.
void wait_until_read(int fd) {
  struct stat kind {};
  if (fstat(fd, &kind) != 0 || !S_ISFIFO(kind.st_mode)) return;
  const auto end = std::chrono::steady_clock::now() + reading;
  int unread = 0;
  while (ioctl(fd, FIONREAD, &unread) == 0 && unread > 0 &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(passing_on);
}

}  // namespace

void ProgressEngine::handle_control() {
  // A rank that was stopped finds claims that the others have settled without it long ago.
  const auto patience = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(options_.patience_s));
  const Clock::time_point now = Clock::now();
  if (last_look_ != Clock::time_point{} && now - last_look_ > patience / 2)
    settled_until_ = now + patience;
  last_look_ = now;
  ControlMessage message;
  int from = -1;
  while (wire_.receive_control(message, from)) handle(message, from);
}

void ProgressEngine::handle(const ControlMessage& message, int from) {
  switch (message.kind) {
    case claim: {
      if (Clock::now() < settled_until_) return;  // as if this rank were still stopped
      if (reporter_ < 0) reporter_ = from;
      ControlMessage reply{};
      reply.kind = reporter_ == from ? grant : denial;
      wire_.send_control(reply, from);
      return;
    }
    case grant:
      verdict_ = Verdict::granted;
      return;
    case denial:
      verdict_ = Verdict::denied;
      return;
    case release:
      if (reporter_ == from) reporter_ = -1;
      return;
    case reporting:
      reporter_ = from;
      return;
    case query:
      wire_.send_control(answer_to(message, from), from);
      return;
    case answer:
      answers_[from] = {true, message};
      return;
    default:
      return;
  }
}

ControlMessage ProgressEngine::answer_to(const ControlMessage& message, int from) const {
  ControlMessage reply{};
  reply.kind = answer;
  const auto found = groups_.find(message.group);
  if (found != groups_.end()) {
    const GroupState& group = *found->second;
    const auto& ranks = group.world_ranks;
    const auto asker = std::find(ranks.begin(), ranks.end(), from) - ranks.begin();
    const auto kind = static_cast<Expectation::Kind>(message.question);
    std::uint64_t begun = group.collectives;
    if (kind != Expectation::Kind::collective && asker < group.size()) {
      begun = (kind == Expectation::Kind::send ? group.receives : group.sends)[asker];
    }
    reply.arrived = begun > message.index;
  }
  if (const Activity now = activity_ ? activity_() : Activity{}; now.busy) {
    reply.busy = 1;
    reply.moved = now.moved;
    std::strncpy(reply.text, now.text.c_str(), sizeof reply.text - 1);
  } else if (!waits_.empty()) {
    const Wait& wait = waits_.front();
    reply.waiting = 1;
    reply.seconds = std::chrono::duration<float>(Clock::now() - wait.since).count();
    const std::string text = fmt::format("'{}' of group {}", wait.operation->label().text(),
                                         wait.operation->group().name);
    std::strncpy(reply.text, text.c_str(), sizeof reply.text - 1);
  }
  return reply;
}

void ProgressEngine::poll_until(double seconds, const std::function<bool()>& enough) {
  for (RunningTime time; time.seconds() <= seconds;) {
    {
      const std::lock_guard lock(mutex_);
      poll_locked();
      if (enough()) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool ProgressEngine::elect_reporter() {
  const int rank = wire_.place().rank;
  for (int arbiter = 0; arbiter < std::min(wire_.place().size, max_arbiters); ++arbiter) {
    if (arbiter == rank) {
      const std::lock_guard lock(mutex_);
      if (reporter_ < 0) reporter_ = rank;
      return reporter_ == rank;
    }
    with_wire([&](Wire& wire) {
      verdict_ = Verdict::none;
      ControlMessage message{};
      message.kind = claim;
      wire.send_control(message, arbiter);
    });
    Verdict verdict = Verdict::none;
    poll_until(options_.patience_s, [&] {
      verdict = reporter_ >= 0 && reporter_ != rank ? Verdict::denied : verdict_;
      return verdict != Verdict::none;
    });
    if (verdict != Verdict::none) {
      arbiter_ = arbiter;
      return verdict == Verdict::granted;
    }
  }
  return true;
}

// Withdraws a rank that turns out to have nothing to report.
void ProgressEngine::release_reporter() {
  const std::lock_guard lock(mutex_);
  if (reporter_ == wire_.place().rank) reporter_ = -1;
  if (arbiter_ < 0) return;
  ControlMessage message{};
  message.kind = release;
  wire_.send_control(message, std::exchange(arbiter_, -1));
}

void ProgressEngine::announce_reporter() {
  try {
    with_wire([](Wire& wire) {
      ControlMessage message{};
      message.kind = reporting;
      for (int rank = 0; rank < wire.place().size; ++rank) {
        if (rank != wire.place().rank) wire.send_control(message, rank);
      }
    });
  } catch (const JobEnded&) {
    throw;
  } catch (const std::exception&) {
    // The wire itself is broken: the message still has to be printed.
  }
}

void ProgressEngine::report_and_exit(int exit_code, const LastMessage& message) {
  if (spoken_.exchange(true)) stay_silent(exit_code);  // another thread of this rank was faster
  announce_reporter();
  const Place& place = wire_.place();
  const std::string text =
      fmt::format("trireme: rank {} ({}): {}\n", place.rank, place.host, message.text);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  print_last_output({fmt::format("rank {}: {}", place.rank, message.text), message.silent});
  wait_until_read(STDERR_FILENO);
  end_job(exit_code);
}

void ProgressEngine::print_last_output(LastMessage message) {
  LastOutput words;
  {
    const std::lock_guard lock(mutex_);
    words = std::exchange(last_output_, nullptr);
  }
  // The message is already printed; the last output is only a copy of it.
  if (words)
    try_for_a_while([words = std::move(words), message = std::move(message)] { words(message); });
}

void ProgressEngine::free_before_end() {
  std::function<void()> free;
  {
    const std::lock_guard lock(mutex_);
    free = std::exchange(before_end_, nullptr);
  }
  if (free) try_for_a_while(std::move(free));
}

void ProgressEngine::stay_silent(int exit_code) {
  poll_until(silence_s, [] { return false; });
  end_job(exit_code);
}

void ProgressEngine::end_job(int exit_code) {
  free_before_end();
  const std::lock_guard lock(mutex_);
  wire_.abort(exit_code);
  std::terminate();  // unreachable, but the compiler cannot tell
}

void ProgressEngine::abort(int exit_code, const std::string& message) {
  bool elected = true;
  try {
    elected = elect_reporter();
  } catch (const JobEnded&) {
    throw;
  } catch (const std::exception&) {
    // The wire itself is broken: better two messages than none.
  }
  if (elected) report_and_exit(exit_code, {message, {}});
  stay_silent(exit_code);
}

// Returns if the wait may continue; otherwise ends the job.
void ProgressEngine::expire(const Operation& operation, double seconds) {
  const int exit_code = static_cast<int>(ExitCode::failed);
  ask_all(operation);
  if (operation.done() || is_excused(operation)) return;
  if (!elect_reporter()) stay_silent(exit_code);
  LastMessage message;
  {
    const std::lock_guard lock(mutex_);
    if (!operation.done()) message = report(operation, seconds);
  }
  if (message.text.empty()) return release_reporter();
  report_and_exit(exit_code, message);
}

void ProgressEngine::ask_all(const Operation& operation) {
  const int size = wire_.place().size;
  with_wire([&](Wire& wire) {
    if (operation.done()) return;  // and thus has no expectation
    const Expectation expectation = operation.expectation();
    ControlMessage message{};
    message.kind = query;
    message.question = static_cast<std::uint8_t>(expectation.kind);
    message.group = operation.group().id;
    message.index = expectation.index;
    for (int rank = 0; rank < size; ++rank) {
      answers_[rank] = {};
      if (rank != wire.place().rank) wire.send_control(message, rank);
    }
  });
  poll_until(options_.patience_s, [&] {
    if (operation.done()) return true;
    return std::count_if(answers_.begin(), answers_.end(),
                         [](const Answer& a) { return a.given; }) == size - 1;
  });
}

// Returns whether every missing rank answers and some rank is busy with files and making progress.
// It need not be a rank that the missing ones wait for. If the last rank waited for has just
// arrived, the transfer gets a new time limit.
bool ProgressEngine::is_excused(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  if (operation.done()) return true;
  bool moves = false;
  for (std::size_t rank = 0; rank < answers_.size(); ++rank) {
    const ControlMessage& answer = answers_[rank].message;
    Stall& stall = stalls_[rank];
    if (!answers_[rank].given || !answer.busy) {
      stall = {};
      continue;
    }
    stall = {answer.moved, stall.moved == answer.moved ? stall.waits + 1 : 0};
    moves |= stall.waits < options_.busy_waits;
  }
  const std::vector<int> missing = missing_ranks(operation);
  const bool just_arrived = missing.empty() && waited_for_busy_ == &operation;
  const bool excused =
      moves && std::ranges::all_of(missing, [&](int rank) { return answers_[rank].given; });
  waited_for_busy_ = excused ? &operation : nullptr;
  return excused || just_arrived;
}

// Ranks of which the operation still expects something and which have not started it.
std::vector<int> ProgressEngine::missing_ranks(const Operation& operation) const {
  const GroupState& group = operation.group();
  const Expectation expectation = operation.expectation();
  std::vector<int> missing;
  for (int k = 0; k < group.size(); ++k) {
    const int rank = group.world_ranks[k];
    const bool asked = expectation.peer < 0 ? k != group.rank : k == expectation.peer;
    if (asked && !(answers_[rank].given && answers_[rank].message.arrived)) missing.push_back(rank);
  }
  return missing;
}

// "rank 3 on n7"
std::string ProgressEngine::name_of(int world_rank) const {
  return fmt::format("rank {} on {}", world_rank, hosts_[world_rank]);
}

// Describes a rank's answer, or that it did not answer.
std::string ProgressEngine::state_of(int world_rank) const {
  const Answer& a = answers_[world_rank];
  const std::string name = name_of(world_rank);
  if (!a.given) return name + " (does not respond: stopped, dead or disconnected)";
  if (a.message.busy) {
    return fmt::format("{} ({}; no progress for {:.0f} s)", name, a.message.text,
                       stalls_[world_rank].waits * options_.timeout_s);
  }
  if (!a.message.waiting) return name + " (is computing)";
  return fmt::format("{} (has been waiting for {} for {:.0f} s)", name, a.message.text,
                     a.message.seconds);
}

LastMessage ProgressEngine::report(const Operation& operation, double seconds) const {
  const GroupState& group = operation.group();
  const std::vector<int> missing = missing_ranks(operation);
  std::vector<int> silent;  // in the whole job
  for (int rank = 0; rank < wire_.place().size; ++rank) {
    if (rank != wire_.place().rank && !answers_[rank].given) silent.push_back(rank);
  }
  std::string text =
      fmt::format("'{}' of group {} (ranks {}) is not complete after {:.1f} s. ",
                  operation.label().text(), group.name, rank_list(group.world_ranks), seconds);
  if (missing.empty()) {
    text += "All ranks have arrived, but no data is transferred";
  } else {
    text += "Missing: ";
    for (std::size_t i = 0; i < std::min(missing.size(), max_described); ++i) {
      text += (i ? ", " : "") + state_of(missing[i]);
    }
    if (missing.size() > max_described) {
      text += ", also " + rank_list({missing.begin() + max_described, missing.end()});
    }
  }
  std::vector<int> elsewhere = silent;
  std::erase_if(elsewhere, [&](int rank) { return std::ranges::count(missing, rank) > 0; });
  if (elsewhere.size() == 1)
    text += ". In other groups, no response from " + name_of(elsewhere.front());
  if (elsewhere.size() > 1)
    text += ". In other groups, no response from ranks " + rank_list(elsewhere);
  text += ". The job ends; if its ranks are only slow, increase train.timeout_s";
  return {text + suspects_text(suspect_hosts(silent, wire_.place().rank, hosts_)), silent};
}

}  // namespace trireme
