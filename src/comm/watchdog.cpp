// How a job ends when something is wrong: the ranks agree on who speaks, that one asks the others
// what they do, says it once, and ends all.
//
// Agreement: who wants to speak asks the first rank that answers, in rank order, for the voice; a
// rank gives its voice once. Answers come from whichever thread of the asked rank polls, so a rank
// that computes answers too; one that is stopped or dead does not.
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "comm/engine.h"
#include "comm/rank_list.h"

namespace trireme {
namespace {

enum Kind : std::uint8_t { claim, grant, denial, query, answer };

constexpr int max_arbiters = 4;           // unanswering ranks in a row before a rank just speaks
constexpr double silence_s = 10;          // for the speaking rank to end the job
constexpr std::size_t max_described = 8;  // ranks that a message describes one by one
constexpr auto reading = std::chrono::seconds(2);  // for a launcher to take a message from its pipe
constexpr auto passing_on = std::chrono::milliseconds(100);  // and to hand it to the user

// Launchers read what ranks say from pipes and drop what is left there when a job is aborted, so
// that the message must be through before.
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
  ControlMessage message;
  int from = -1;
  while (wire_.receive_control(message, from)) handle(message, from);
}

void ProgressEngine::handle(const ControlMessage& message, int from) {
  switch (message.kind) {
    case claim: {
      if (voice_ < 0) voice_ = from;
      ControlMessage reply{};
      reply.kind = voice_ == from ? grant : denial;
      wire_.send_control(reply, from);
      return;
    }
    case grant:
      verdict_ = Verdict::granted;
      return;
    case denial:
      verdict_ = Verdict::denied;
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
  if (!waits_.empty()) {
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
  const Clock::time_point begin = Clock::now();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      poll_locked();
      if (enough()) return;
    }
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool ProgressEngine::claim_voice() {
  const int rank = wire_.place().rank;
  for (int arbiter = 0; arbiter < std::min(wire_.place().size, max_arbiters); ++arbiter) {
    if (arbiter == rank) {
      const std::lock_guard lock(mutex_);
      if (voice_ < 0) voice_ = rank;
      return voice_ == rank;
    }
    with_wire([&](Wire& wire) {
      verdict_ = Verdict::none;
      ControlMessage message{};
      message.kind = claim;
      wire.send_control(message, arbiter);
    });
    Verdict verdict = Verdict::none;
    poll_until(options_.patience_s, [&] { return (verdict = verdict_) != Verdict::none; });
    if (verdict != Verdict::none) return verdict == Verdict::granted;
  }
  return true;
}

void ProgressEngine::speak(int exit_code, const std::string& message) {
  if (spoken_.exchange(true)) stay_silent(exit_code);  // another thread of this rank was faster
  const Place& place = wire_.place();
  const std::string text =
      fmt::format("trireme: rank {} ({}): {}\n", place.rank, place.host, message);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  wait_until_read(STDERR_FILENO);
  end_job(exit_code);
}

void ProgressEngine::stay_silent(int exit_code) {
  poll_until(silence_s, [] { return false; });
  end_job(exit_code);
}

void ProgressEngine::end_job(int exit_code) {
  const std::lock_guard lock(mutex_);
  wire_.abort(exit_code);
  std::terminate();  // not reached, which the compiler cannot see
}

void ProgressEngine::abort(int exit_code, const std::string& message) {
  bool voice = true;
  try {
    voice = claim_voice();
  } catch (const JobEnded&) {
    throw;
  } catch (const std::exception&) {
    // The wire itself is broken: better two messages than none.
  }
  if (voice) speak(exit_code, message);
  stay_silent(exit_code);
}

void ProgressEngine::expire(const Operation& operation, double seconds) {
  const int exit_code = static_cast<int>(ExitCode::failed);
  if (!claim_voice()) stay_silent(exit_code);
  ask_all(operation);
  std::string message;
  {
    const std::lock_guard lock(mutex_);
    message = report(operation, seconds);
  }
  speak(exit_code, message);
}

void ProgressEngine::ask_all(const Operation& operation) {
  const int size = wire_.place().size;
  const Expectation expectation = operation.expectation();
  with_wire([&](Wire& wire) {
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
    return std::count_if(answers_.begin(), answers_.end(),
                         [](const Answer& a) { return a.given; }) == size - 1;
  });
}

// What a rank said, or that it did not.
std::string ProgressEngine::state_of(int world_rank) const {
  const Answer& a = answers_[world_rank];
  if (!a.given)
    return fmt::format("rank {} (does not answer: stopped, dead or cut off)", world_rank);
  if (!a.message.waiting) return fmt::format("rank {} (computes)", world_rank);
  return fmt::format("rank {} (waits for {} since {:.0f} s)", world_rank, a.message.text,
                     a.message.seconds);
}

std::string ProgressEngine::report(const Operation& operation, double seconds) const {
  const GroupState& group = operation.group();
  const Expectation expectation = operation.expectation();
  std::vector<int> missing;
  std::vector<int> mute;  // in the whole job
  for (int rank = 0; rank < wire_.place().size; ++rank) {
    if (rank != wire_.place().rank && !answers_[rank].given) mute.push_back(rank);
  }
  for (int k = 0; k < group.size(); ++k) {
    const int rank = group.world_ranks[k];
    const bool asked = expectation.peer < 0 ? k != group.rank : k == expectation.peer;
    if (asked && !(answers_[rank].given && answers_[rank].message.arrived)) missing.push_back(rank);
  }
  std::string text =
      fmt::format("'{}' of group {} (ranks {}) is not complete after {:.1f} s. ",
                  operation.label().text(), group.name, rank_list(group.world_ranks), seconds);
  if (missing.empty()) {
    text += "All ranks have arrived, but the transfer does not go on";
  } else {
    text += "Not arrived: ";
    for (std::size_t i = 0; i < std::min(missing.size(), max_described); ++i) {
      text += (i ? ", " : "") + state_of(missing[i]);
    }
    if (missing.size() > max_described) {
      text += ", also " + rank_list({missing.begin() + max_described, missing.end()});
    }
  }
  std::erase_if(mute, [&](int rank) {
    return std::find(missing.begin(), missing.end(), rank) != missing.end();
  });
  if (!mute.empty()) text += fmt::format(". Elsewhere no answer from rank {}", rank_list(mute));
  return text + ". The job ends; if its ranks are only slow, raise train.timeout_s";
}

}  // namespace trireme
