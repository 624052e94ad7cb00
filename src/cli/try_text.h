// The text that `trireme try` trains on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::cli {

// Paragraphs, each followed by a blank line. Nothing trains on those that are held out.
struct TryText {
  std::string train, heldout;
  std::string note;  // for the user; or ""
  std::uint64_t hash = 0;
};

// The text of the files, or where there are none the one that is installed with the program: about
// every twentieth paragraph is held out, and one that is long in comparison to the text is cut.
// Bad input (exit code 2): files that are missing, binary or too small to learn from.
TryText read_try_text(const std::vector<std::string>& files);

}  // namespace trireme::cli
