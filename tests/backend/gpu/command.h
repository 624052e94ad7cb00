// Runs a shell command and captures its output. A nested test program writes no result files: the
// failures that it must find are not failures of ./test.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace trireme {

struct CommandOutcome {
  int status = 0;    // as from wait(2)
  std::string text;  // stdout and stderr
};

inline CommandOutcome run_command(const std::string& command) {
  CommandOutcome outcome;
  std::FILE* const out = ::popen(("export GTEST_OUTPUT=; " + command + " 2>&1").c_str(), "r");
  if (!out) return {.status = -1, .text = "popen failed"};
  std::array<char, 4096> piece;
  while (const std::size_t bytes = std::fread(piece.data(), 1, piece.size(), out))
    outcome.text.append(piece.data(), bytes);
  outcome.status = ::pclose(out);
  return outcome;
}

}  // namespace trireme
