// Which files there are, and what they hold by their names and first bytes.
#include <glob.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "data/document_chunks.h"

namespace trireme {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::string_view names_of_columns[] = {".parquet", ".arrow"};

std::string_view without_compression(std::string_view name) {
  for (const std::string_view suffix : {".gz", ".xz", ".zst"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  return name;
}

bool is_name_of_columns(std::string_view name) {
  return std::ranges::any_of(names_of_columns, [&](auto suffix) { return name.ends_with(suffix); });
}

// Whether a file in a folder of a corpus holds documents; others tell of them.
bool is_document_name(const fs::path& path) {
  const std::string name = path.filename().string();
  return !name.starts_with('.') && (is_text_name(name) || is_name_of_columns(name) ||
                                    without_compression(name).ends_with(".jsonl"));
}

void add_folder(const std::string& folder, std::vector<std::string>& files) {
  const std::size_t before = files.size();
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file() && is_document_name(entry.path())) {
      files.push_back(entry.path().string());
    }
  }
  if (files.size() == before) {
    fail_input(
        "the folder '{}' holds no documents: expected files .parquet, .arrow, .jsonl or .txt in it "
        "or "
        "below it (the latter two also compressed: .gz, .xz, .zst)",
        folder);
  }
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
}

// Whether a file that is named like text begins like JSON lines: an object whose first key or end
// is in the same line. Refuses what begins like JSON in another layout, which would be no text
// either.
bool begins_like_json_lines(const std::string& file) {
  std::string begin(4096, '\0');
  begin.resize(open_bytes(file)->read(begin.data(), begin.size()));
  std::string_view text = begin;
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const auto skip = [&](const char* blanks) {
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  };
  skip(" \t\r\n");
  const bool object = text.starts_with('{'), list = text.starts_with('[');
  if (!object && !list) return false;
  text.remove_prefix(1);
  skip(" \t\r");
  if (object && (text.starts_with('"') || text.starts_with('}'))) return true;
  skip(" \t\r\n");
  if (text.starts_with('"') || (list && text.starts_with('{'))) {
    fail_input(
        "'{}' begins like JSON that is not one object per line: expected text or JSON lines; give "
        "--text-mode to read it as text",
        file);
  }
  return false;
}

}  // namespace

bool is_text_name(std::string_view name) {
  return without_compression(name).ends_with(".txt");
}

std::vector<std::string> expand_inputs(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    std::error_code error;
    if (fs::is_regular_file(pattern, error)) {  // also a name with brackets or stars in it
      files.push_back(pattern);
      continue;
    }
    if (fs::is_directory(pattern, error)) {
      add_folder(pattern, files);
      continue;
    }
    glob_t found{};
    const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
    for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
      if (!fs::is_directory(found.gl_pathv[i], error)) files.emplace_back(found.gl_pathv[i]);
    }
    ::globfree(&found);
    if (result != 0) fail_input("no file matches '{}'", pattern);
  }
  if (files.empty()) fail_input("no input file is given");
  return files;
}

DocumentForm form_of(const std::string& file, DocumentForm text, bool all_text) {
  if (all_text) return text;
  if (is_arrow_file(file)) return DocumentForm::row;
  if (is_name_of_columns(file)) {
    fail_input(
        "'{}' is named like a file of Parquet or Arrow, but it does not begin like one: it is "
        "damaged "
        "or something else",
        file);
  }
  return is_text_name(file) && !begins_like_json_lines(file) ? text : DocumentForm::json_line;
}

}  // namespace trireme
