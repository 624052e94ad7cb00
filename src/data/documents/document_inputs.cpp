// Patterns to files, and files to forms.
#include "data/documents/document_inputs.h"

#include <glob.h>

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/foreign_bytes.h"
#include "data/documents/arrow_file.h"
#include "data/documents/document_folder.h"
#include "data/documents/document_looks.h"
#include "data/documents/document_names.h"

namespace trireme {
namespace {

// Adds the files that match a pattern. Files whose names a folder would skip are skipped here too.
void add_matches(const std::string& pattern, Inputs& inputs) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  FolderFiles files;
  for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i)
    files.add_match(found.gl_pathv[i]);
  ::globfree(&found);
  if (result != 0) fail_input("no file matches '{}'", pattern);
  std::move(files).append_to(inputs);
}

void refuse_content(const std::string& file, const ForeignBytes& foreign) {
  if (foreign.kind == ForeignBytes::Kind::stand_in)
    fail_input("'{}' is {}: {}", file, foreign.what, foreign.remedy);
  const bool page = foreign.kind == ForeignBytes::Kind::web_page;
  const bool packed = foreign.kind == ForeignBytes::Kind::compressed;
  fail_input("'{}' contains {}{}, not documents: {}{}", file,
             packed && foreign.what.starts_with("compressed") ? "data " : "", foreign.what,
             foreign.remedy, page ? "; --text-mode of `trireme preprocess` reads it as text" : "");
}

}  // namespace

Inputs expand_inputs(const std::vector<std::string>& patterns) {
  Inputs inputs;
  for (const std::string& pattern : patterns) {
    std::error_code error;
    const fs::file_status status = fs::status(pattern, error);
    if (fs::is_regular_file(status)) {  // also a name with brackets or stars in it
      inputs.files.push_back(pattern);
    } else if (fs::is_directory(status)) {
      FolderFiles files;
      files.add_folder(pattern);
      std::move(files).append_to(inputs);
    } else if (fs::exists(status)) {
      fail_input(
          "'{}' is neither a file nor a folder: inputs must be readable twice; write the contents "
          "of a pipe to a file first",
          pattern);
    } else {
      add_matches(pattern, inputs);
    }
  }
  if (inputs.files.empty()) fail_input("no input file was given");
  return inputs;
}

DocumentForm form_of(const std::string& file, DocumentForm text, bool all_text) {
  if (is_arrow_file(file)) {
    if (all_text) fail_input("'{}' is a Parquet or Arrow file, not text: remove --text-mode", file);
    return DocumentForm::row;
  }
  const std::string first = first_content(file);
  if (const auto foreign = find_foreign_bytes(first)) {
    const bool page = foreign->kind == ForeignBytes::Kind::web_page;
    if (!page || !all_text) refuse_content(file, *foreign);
  }
  if (first.starts_with("PAR1") || first.starts_with("ARROW1")) {
    fail_input("'{}' is a compressed Parquet or Arrow file: decompress it first", file);
  }
  if (is_columns_name(file) && !all_text) {
    fail_input(
        "'{}' has the extension of a Parquet or Arrow file, but its contents do not match: it is "
        "damaged or of a different type",
        file);
  }
  if ((all_text || is_text_name(file)) && looks_binary(first)) {
    fail_input("'{}' is not text: expected UTF-8, found NULs, control characters or other bytes",
               file);
  }
  if (looks_like_other_encoding(first)) {
    fail_input(
        "'{}' is not UTF-8: most of its non-ASCII characters are ill-formed; convert it (`iconv -f "
        "ENCODING -t UTF-8`), or remove what is damaged (`iconv -c -f UTF-8 -t UTF-8`)",
        file);
  }
  if (all_text) return text;
  const ContentLook look = look_of(first);
  if (look == ContentLook::json) {
    fail_input(
        "'{}' looks like JSON, but not one object per line: expected {}JSON lines, which `jq -c "
        "'.[]?'` makes from a list and `jq -c .` from objects; --text-mode reads it as text",
        file, is_text_name(file) ? "text or " : "");
  }
  if (is_text_name(file)) return look == ContentLook::json_lines ? DocumentForm::json_line : text;
  if (look == ContentLook::wiki_text) {
    fail_input(
        "'{}' contains documents in the format of WikiExtractor, <doc ...>: expected JSON lines, "
        "which its option --json writes; --text-mode reads it as text, including the tags",
        file);
  }
  return DocumentForm::json_line;
}

std::vector<std::string> lines_about(const std::vector<PassedOver>& passed_over) {
  constexpr std::size_t most = 20;
  std::vector<std::string> reasons, lines;
  for (const PassedOver& one : passed_over) {
    if (std::ranges::find(reasons, one.why) == reasons.end()) reasons.push_back(one.why);
  }
  for (const std::string& why : reasons) {
    std::size_t count = 0;
    std::string names;
    for (const PassedOver& one : passed_over) {
      if (one.why != why) continue;
      if (count++ < most) names += (names.empty() ? "'" : ", '") + one.path + "'";
    }
    if (count > most) names += fmt::format(" and {} more", count - most);
    lines.push_back(fmt::format("skipped {} ({}): {}", counted(count, "entry"), why, names));
  }
  return lines;
}

}  // namespace trireme
