// Translations of flags on top of those that every small run needs.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "importers/megatron/translate.h"

namespace trireme::megatron {

inline std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

inline constexpr const char* kSmall =
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --micro-batch-size 2 --lr 1e-3 --train-iters 20 "
    "--data-path corpus --vocab-file vocab.json --merge-file merges.txt ";

inline Translation translated(const std::string& more, Program program = Program::gpt,
                              bool lenient = false) {
  return translate(words(kSmall + more), {.program = program, .lenient = lenient});
}

inline Config config(const std::string& more, Program program = Program::gpt) {
  Config result = to_config(translated(more, program));
  check(result);
  return result;
}

// The message with which flags are refused as bad input.
inline std::string refusal_of(const std::vector<std::string>& arguments,
                              Program program = Program::gpt) {
  try {
    check(to_config(translate(arguments, {.program = program})));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

inline std::string refusal(const std::string& more, Program program = Program::gpt) {
  return refusal_of(words(kSmall + more), program);
}

inline std::vector<std::string> noted(const Translation& translation) {
  std::vector<std::string> flags;
  for (const Note& note : translation.notes) flags.push_back(note.flag);
  return flags;
}

}  // namespace trireme::megatron
