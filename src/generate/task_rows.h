// Questions of an evaluation task, read from a file of JSON lines: a context with choices of which
// one is right (HellaSwag, ARC), or with the text that is to follow (LAMBADA). Texts are put
// together as lm-evaluation-harness 0.4 does it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace trireme {

// How a model is asked: which of some continuations is the likeliest, or how likely one is.
enum class TaskKind { choice, cloze };

struct TaskRow {
  std::string context;
  std::vector<std::string> continuations;  // with the space in front of each; one for a cloze
  std::vector<std::int64_t> lengths;       // characters of each choice, without that space
  std::int64_t answer = 0;                 // index of the right choice
};

struct TaskFile {
  TaskKind kind = TaskKind::choice;
  std::string shape;  // name in task_shapes()
  std::vector<TaskRow> rows;
};

// Where a text ends without the white space after it, as Python's str.rstrip() sees it.
std::size_t end_of_text(std::string_view text);

// The shapes that rows can have, "name: keys" each, for help and messages.
std::vector<std::string> task_shapes();

// Refuses (exit code 2), naming file and line: what is not a row of one shape, rows of different
// shapes, a key that the shape does not have, an answer that is not one of the choices, and an
// empty file. Empty lines are skipped.
TaskFile read_task_file(const fs::path& path);

}  // namespace trireme
