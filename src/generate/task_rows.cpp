// The shapes of rows, each a function from a JSON object to a question.
#include "generate/task_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "base/counted.h"
#include "base/error.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

// Where a row stands, and what may be wrong with it.
class RowReader {
 public:
  RowReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  template <class... Values>
  [[noreturn]] void fail(fmt::format_string<Values...> text, Values&&... values) const {
    fail_input("{}: {}", where_, fmt::format(text, std::forward<Values>(values)...));
  }

  std::string text(const char* key) const { return text_of(json_.at(key), key); }

  std::vector<std::string> texts(const Json& json, const char* key) const {
    if (!json.is_array() || json.empty()) fail("\"{}\" is not a list of strings", key);
    std::vector<std::string> all;
    for (const Json& value : json) all.push_back(text_of(value, key));
    return all;
  }

  const Json& at(const char* key) const { return json_.at(key); }

 private:
  std::string text_of(const Json& value, const char* key) const {
    if (!value.is_string()) fail("\"{}\" is not a string: {}", key, value.dump());
    return value.get<std::string>();
  }

  const Json& json_;
  std::string where_;
};

std::int64_t characters_of(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

// A space stands between a context and each choice.
TaskRow choice_row(std::string context, const std::vector<std::string>& choices,
                   std::int64_t answer, const RowReader& row) {
  if (answer < 0 || answer >= static_cast<std::int64_t>(choices.size()))
    row.fail("the answer {} is not one of the {}, which are counted from 0", answer,
             counted(choices.size(), "choice"));
  TaskRow result{
      .context = std::move(context), .continuations = {}, .lengths = {}, .answer = answer};
  for (const std::string& choice : choices) {
    if (choice.empty()) row.fail("a choice is empty");
    result.continuations.push_back(" " + choice);
    result.lengths.push_back(characters_of(choice));
  }
  return result;
}

// An index, as a number or, as HellaSwag's files have it, as digits.
std::int64_t index_of(const RowReader& row, const char* key) {
  const Json& value = row.at(key);
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_string()) {
    const std::string digits = value.get<std::string>();
    const bool whole = !digits.empty() && digits.size() < 10 &&
                       std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
    if (whole) return std::stoll(digits);
  }
  row.fail("\"{}\" is not the index of a choice: {}", key, value.dump());
}

TaskRow read_choices(const RowReader& row) {
  return choice_row(row.text("context"), row.texts(row.at("choices"), "choices"),
                    index_of(row, "answer"), row);
}

TaskRow read_target(const RowReader& row) {
  TaskRow result{.context = row.text("context"), .continuations = {row.text("target")}};
  if (result.continuations[0].empty()) row.fail("\"target\" is empty");
  return result;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// What Python's str.strip() removes.
bool is_stripped(char32_t c) {
  return is_white_space(c) || (c >= 0x1c && c <= 0x1f);
}

std::string stripped(std::string_view text) {
  text = text.substr(0, end_of_text(text));
  while (!text.empty()) {
    const DecodedChar c = decode_utf8(text.data(), text.data() + text.size());
    if (!is_stripped(c.value)) break;
    text.remove_prefix(c.length);
  }
  return std::string(text);
}

// Removes "[...]" within a line.
void remove_brackets(std::string& text) {
  for (std::size_t at = 0; (at = text.find('[', at)) != std::string::npos;) {
    const std::size_t end = text.find_first_of("]\n", at);
    if (end == std::string::npos) return;
    if (text[end] == ']') {
      text.erase(at, end + 1 - at);
    } else {
      at = end;
    }
  }
}

// The markup of WikiHow's pages is removed as the harness does it for HellaSwag.
std::string cleaned(std::string_view raw) {
  std::string text = stripped(raw);
  replace_all(text, " [title]", ". ");
  remove_brackets(text);
  replace_all(text, "  ", " ");
  return text;
}

// Python's str.capitalize(), but for a capital sigma, whose small form depends on its place.
std::string capitalized(const std::string& text, const RowReader& row) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + at, text.data() + text.size());
    if (c.value == U'\u03a3') row.fail("\"ctx_b\" has a capital sigma, which is not supported");
    if (at == 0) {
      append_title(c.value, result);
    } else {
      newest_unicode.append_lower(c.value, result);
    }
    at += c.length;
  }
  return result;
}

TaskRow read_hellaswag(const RowReader& row) {
  const std::string context = row.text("activity_label") + ": " + row.text("ctx_a") + " " +
                              capitalized(row.text("ctx_b"), row);
  std::vector<std::string> endings = row.texts(row.at("endings"), "endings");
  for (std::string& ending : endings) ending = cleaned(ending);
  return choice_row(cleaned(context), endings, index_of(row, "label"), row);
}

TaskRow read_arc(const RowReader& row) {
  const Json& choices = row.at("choices");
  if (!choices.is_object() || !choices.contains("text") || !choices.contains("label"))
    row.fail("\"choices\" is not an object with \"text\" and \"label\"");
  const std::vector<std::string> labels = row.texts(choices.at("label"), "label");
  const std::string key = row.text("answerKey");
  const auto found = std::ranges::find(labels, key);
  if (found == labels.end())
    row.fail("\"answerKey\" is \"{}\", but the labels are {}", key, fmt::join(labels, ", "));
  return choice_row("Question: " + row.text("question") + "\nAnswer:",
                    row.texts(choices.at("text"), "text"), found - labels.begin(), row);
}

// The last word follows all words before it.
TaskRow read_lambada(const RowReader& row) {
  const std::string text = row.text("text");
  const std::size_t space = text.rfind(' ');
  if (space == std::string::npos || space + 1 == text.size())
    row.fail("\"text\" has no last word after a space");
  return {.context = text.substr(0, space), .continuations = {text.substr(space)}};
}

struct RowShape {
  const char* name;
  TaskKind kind;
  std::set<std::string> keys;   // each row has these
  std::set<std::string> other;  // that say nothing of the question
  TaskRow (*read)(const RowReader&);
};

// The first whose keys a row has is its shape.
std::span<const RowShape> shapes() {
  static const std::vector<RowShape> table = {
      {"choices", TaskKind::choice, {"context", "choices", "answer"}, {"id"}, read_choices},
      {"cloze", TaskKind::cloze, {"context", "target"}, {"id"}, read_target},
      {"HellaSwag",
       TaskKind::choice,
       {"activity_label", "ctx_a", "ctx_b", "endings", "label"},
       {"ind", "ctx", "source_id", "split", "split_type"},
       read_hellaswag},
      {"ARC", TaskKind::choice, {"question", "choices", "answerKey"}, {"id"}, read_arc},
      {"LAMBADA", TaskKind::cloze, {"text"}, {"id", "domain"}, read_lambada},
  };
  return table;
}

const RowShape& shape_of(const Json& json, const RowReader& row) {
  if (!json.is_object()) row.fail("is not a JSON object");
  const auto fits = [&](const RowShape& shape) {
    return std::ranges::all_of(shape.keys,
                               [&](const std::string& key) { return json.contains(key); });
  };
  const auto found = std::ranges::find_if(shapes(), fits);
  if (found == shapes().end())
    row.fail("does not have the keys of a task: expected those of one of {}",
             fmt::join(task_shapes(), "; "));
  for (const auto& [key, value] : json.items()) {
    if (!found->keys.contains(key) && !found->other.contains(key))
      row.fail("\"{}\" is not a key of a row of {}: expected {}", key, found->name,
               fmt::join(found->keys, ", "));
  }
  return *found;
}

}  // namespace

std::size_t end_of_text(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + at, text.data() + text.size());
    at += c.length;
    if (!is_stripped(c.value)) end = at;
  }
  return end;
}

std::vector<std::string> task_shapes() {
  std::vector<std::string> texts;
  for (const RowShape& shape : shapes())
    texts.push_back(fmt::format("{}: {}", shape.name, fmt::join(shape.keys, ", ")));
  return texts;
}

TaskFile read_task_file(const fs::path& path) {
  if (fs::is_directory(path))
    fail_input("'{}' is a folder: expected a file of JSON lines", path.string());
  std::ifstream file(path);
  if (!file) fail_input("'{}' cannot be read", path.string());
  TaskFile task;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", path.string(), number);
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) fail_input("{}: is not JSON: expected one object per line", where);
    const RowReader row(json, where);
    const RowShape& shape = shape_of(json, row);
    if (task.shape.empty()) {
      task.shape = shape.name;
      task.kind = shape.kind;
    } else if (task.shape != shape.name) {
      row.fail("is a row of {}, but the rows before it are of {}: use a separate file for each",
               shape.name, task.shape);
    }
    task.rows.push_back(shape.read(row));
  }
  if (task.rows.empty())
    fail_input("'{}' has no rows: expected one JSON object per line", path.string());
  return task;
}

}  // namespace trireme
