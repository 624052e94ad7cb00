// A text on its way through the parts of a tokenizer.json.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace trireme {

struct HfText {
  std::string text;
  // How many bytes at its start were made of the first character of the text that was to be
  // encoded: what a Metaspace of prepend_scheme "first" asks. 0 where that character was cut off or
  // removed.
  std::size_t from_first = 0;
  // Whether a Replace put something before the first character, where its pattern matched nothing.
  // The reference then fails or repeats it when it rewrites the text.
  bool inserted_first = false;
};

// The same number for what is left of a text after `cut` bytes.
inline std::size_t from_first_after(std::size_t cut, std::size_t from_first) {
  return from_first - std::min(cut, from_first);
}

}  // namespace trireme
