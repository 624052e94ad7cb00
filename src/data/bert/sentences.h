// Splitting of text into sentences by rules, for BERT's data. docs/data.md states the rules.
#pragma once

#include <string_view>
#include <vector>

namespace trireme {

// Replaces `sentences` by the sentences of `text`, which are views into it, in order and without
// the white space between them; with `keep_space` each has the white space that follows it, so that
// they add up to the text. A text of white space has no sentence.
void split_sentences(std::string_view text, bool keep_space,
                     std::vector<std::string_view>& sentences);

}  // namespace trireme
