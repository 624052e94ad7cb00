// Identifies the failed host from the standard error of the launcher and the ranks.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "operations/launcher_words.h"

namespace trireme {

// Returns the hosts listed after "suspect nodes: " in a rank's message.
std::vector<std::string> hosts_suspected_in(std::string_view text);

// Consumes a launcher's output in pieces of any size. A host is blamed if a process there was
// killed by a signal, if the launcher has lost it, or if a rank suspects it: the watchdog names
// unresponsive ranks, the corruption guard ranks with wrong results, doctor --nodes bad nodes. A
// rank that ends with another message and an exit code detected an error itself, which may occur on
// every node alike.
class Blame {
 public:
  // On standard output only the launcher's messages are considered.
  enum class Stream { error, output };
  void read(std::string_view piece, Stream stream = Stream::error);
  // The hosts blamed first, whose failure caused the others.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // Whether a rank made the accusation without having observed the failure itself.
  bool is_suspicion() const { return accuser_ >= 0; }
  // Whether a rank has printed its final error message.
  bool a_rank_ended() const { return a_rank_ended_; }

 private:
  void read_line(std::string_view line);

  std::array<std::string, 2> rests_;  // incomplete last line of each stream
  LauncherWords words_;
  std::vector<std::string> hosts_;
  int accuser_ = -1;  // the rank that suspects them; -1: the launcher does
  bool a_rank_ended_ = false;
};

}  // namespace trireme
