// The training text of `trireme try`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::cli {

// Paragraphs, each followed by a blank line. Held-out paragraphs are never trained on.
struct TryText {
  std::string train, heldout;
  std::string note;  // for the user; or ""
  std::uint64_t hash = 0;
};

// Reads the files or, if there are none, the text installed with the program: about one paragraph
// in twenty is held out; one that is long relative to the text is split. Rejects (exit code 2)
// files that are missing, binary or too small.
TryText read_try_text(const std::vector<std::string>& files);

}  // namespace trireme::cli
