// Reading ahead to the end of a document.
#include "data/document_chunks.h"

#include <glob.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr std::size_t kNoCut = 0;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

// End of the last blank line that closes a paragraph, with all its line ends; kNoCut if none.
std::size_t end_of_last_blank_line(std::string_view text) {
  for (std::size_t end = text.rfind('\n'); end != text.npos && end > 0;
       end = text.rfind('\n', end - 1)) {
    std::size_t before = end;
    while (before > 0 &&
           (text[before - 1] == ' ' || text[before - 1] == '\t' || text[before - 1] == '\r')) {
      --before;
    }
    if (before > 0 && text[before - 1] == '\n') return end + 1;
  }
  return kNoCut;
}

bool is_text_name(std::string_view name) {
  for (const std::string_view suffix : {".gz", ".xz", ".zst"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  return name.ends_with(".txt");
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

std::vector<std::string> expand_inputs(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    std::error_code error;
    if (fs::is_regular_file(pattern, error)) {  // also a name with brackets or stars in it
      files.push_back(pattern);
      continue;
    }
    if (fs::is_directory(pattern, error)) {
      fail_input("'{}' is a folder; give its files, for example '{}/*.jsonl'", pattern, pattern);
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

ChunkReader::ChunkReader(std::vector<std::string> files, DocumentForm text, bool all_text)
    : files_(std::move(files)) {
  for (const std::string& file : files_) {
    total_bytes_ += File(file, File::Mode::read).size();
    const bool is_text = all_text || (is_text_name(file) && !begins_like_json_lines(file));
    forms_.push_back(is_text ? text : DocumentForm::json_line);
  }
}

std::vector<std::string> ChunkReader::json_lines_in_txt() const {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (forms_[i] == DocumentForm::json_line && is_text_name(files_[i])) found.push_back(files_[i]);
  }
  return found;
}

bool ChunkReader::open_next() {
  if (source_) done_bytes_ += source_->consumed();
  source_.reset();
  if (file_ == files_.size()) return false;
  source_ = open_bytes(files_[file_++]);
  line_ = 1;
  rest_.clear();
  // A byte order mark is not part of the text.
  if (fill_rest(byte_order_mark.size()) && rest_.starts_with(byte_order_mark)) {
    rest_.erase(0, byte_order_mark.size());
  }
  return true;
}

// Reads until `rest_` has `wanted` bytes; false if the file ends before.
bool ChunkReader::fill_rest(std::size_t wanted) {
  std::size_t have = rest_.size();
  rest_.resize(std::max(wanted, have));
  while (have < wanted) {
    const std::size_t n = source_->read(rest_.data() + have, wanted - have);
    if (n == 0) break;
    have += n;
  }
  rest_.resize(have);
  return have >= wanted;
}

std::size_t ChunkReader::find_cut() const {
  switch (forms_[file_ - 1]) {
    case DocumentForm::file:
      return kNoCut;
    case DocumentForm::paragraphs:
      return end_of_last_blank_line(rest_);
    default: {
      const std::size_t end = rest_.rfind('\n');
      return end == rest_.npos ? kNoCut : end + 1;
    }
  }
}

bool ChunkReader::next(Chunk& chunk) {
  while (!source_ || (!fill_rest(1))) {
    if (!open_next()) return false;
  }
  std::size_t cut = kNoCut;
  for (std::size_t wanted = target; cut == kNoCut;
       wanted = std::min(2 * rest_.size(), document_limit)) {
    if (!fill_rest(wanted)) {
      cut = rest_.size();
    } else {
      cut = find_cut();
    }
    if (cut == kNoCut && rest_.size() >= document_limit) {
      fail_input(
          "'{}': the document that begins at line {} has more than {} MiB; cut the file into "
          "documents, one to a line or with blank lines between them (--documents)",
          files_[file_ - 1], line_, document_limit >> 20);
    }
  }
  chunk.file = &files_[file_ - 1];
  chunk.form = forms_[file_ - 1];
  chunk.first_line = line_;
  chunk.size = cut;
  chunk.bytes.assign(rest_, 0, cut);
  chunk.bytes.append(Chunk::padding, '\0');
  line_ += std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(cut), '\n');
  rest_.erase(0, cut);
  return true;
}

}  // namespace trireme
