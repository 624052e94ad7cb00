// Programs of a few instructions for those regular expressions that one pass from left to right can
// match.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Matches are those of a backtracking engine: the leftmost, and of these the one that the first
// alternative and the greediest quantifier give.
struct ScanProgram {
  enum class Kind : std::uint8_t {
    character,  // passes one character of set `arg`
    ahead,      // passes nothing where the next character is of set `arg`
    not_ahead,  // passes nothing at the end, or where it is not
    fork,       // continues at `next`, and if that fails at `other`
    match,
  };
  struct Node {
    Kind kind;
    std::uint16_t arg = 0;
    std::uint16_t next = 0;
    std::uint16_t other = 0;
  };

  static constexpr std::size_t kMostSets = 64;

  std::vector<Node> nodes;
  std::uint16_t start = 0;
  // Sets of characters as regular expressions that match one character.
  std::vector<std::string> sets;
};

// Nothing where the pattern has other constructs than characters and their classes, groups,
// alternatives, greedy and lazy quantifiers, and looks at the one character that follows; or where
// it may match nothing. `pattern` is a valid one of Oniguruma.
std::optional<ScanProgram> compile_scan_program(std::string_view pattern);

}  // namespace trireme
