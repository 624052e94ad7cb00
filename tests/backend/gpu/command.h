// Runs a shell command and takes what it prints. A test program among them leaves no results: what
// it must find is no failure of ./test.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace trireme {

struct CommandOutcome {
  int status = 0;    // as of wait(2)
  std::string text;  // of both its outputs
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
