// Identifies the failed host from the standard error of the launcher and the ranks.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "operations/launcher_words.h"

namespace trireme {

// The hosts after "suspect nodes: " in a message of a rank.
std::vector<std::string> hosts_suspected_in(std::string_view text);

// Is fed what a launcher writes, in pieces of any size. Against a host counts a process
// that was killed by a signal there, that the launcher has lost it, and what a rank suspects: the
// watchdog those that do not answer, the guard against silent corruption those that compute wrong
// numbers, doctor --nodes the bad ones. A rank that ends with another message and an exit code has
// found something itself, and what that is may be wrong on every node.
class Blame {
 public:
  // On standard output only the launcher's messages are considered.
  enum class Stream { error, output };
  void read(std::string_view piece, Stream stream = Stream::error);
  // The hosts blamed first, whose failure the rest followed.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // Whether a rank said it, which has not seen what happened there.
  bool is_suspicion() const { return accuser_ >= 0; }
  // Whether a rank has printed the message with which it ends the job.
  bool a_rank_ended() const { return a_rank_ended_; }

 private:
  void read_line(std::string_view line);

  std::array<std::string, 2> rests_;  // of each stream, the beginning of a line
  LauncherWords words_;
  std::vector<std::string> hosts_;
  int accuser_ = -1;  // the rank that suspects them; -1: the launcher said it
  bool a_rank_ended_ = false;
};

}  // namespace trireme
