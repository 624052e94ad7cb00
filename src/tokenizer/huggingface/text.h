// A text on its way through the parts of a tokenizer.json.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace trireme {

struct HfText {
  std::string text;
  // Number of leading bytes that came from the first character of the text to be encoded, as
  // needed by a Metaspace with prepend_scheme "first". 0 if that character was cut off or
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
