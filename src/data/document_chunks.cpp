// Reading ahead to the end of a document.
#include "data/document_chunks.h"

#include <glob.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr std::size_t kNoCut = 0;

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
    if (result != 0) fail_input("there is no file '{}'", pattern);
  }
  if (files.empty()) fail_input("there is no input file");
  return files;
}

ChunkReader::ChunkReader(std::vector<std::string> files, DocumentForm text, bool all_text)
    : files_(std::move(files)), text_(text), all_text_(all_text) {
  for (const std::string& file : files_) total_bytes_ += File(file, File::Mode::read).size();
}

DocumentForm ChunkReader::form_of(const std::string& file) const {
  return all_text_ || is_text_name(file) ? text_ : DocumentForm::json_line;
}

bool ChunkReader::open_next() {
  if (source_) done_bytes_ += source_->consumed();
  source_.reset();
  if (file_ == files_.size()) return false;
  source_ = open_bytes(files_[file_++]);
  line_ = 1;
  rest_.clear();
  // A byte order mark is no part of the text.
  if (fill_rest(3) && rest_.starts_with("\xef\xbb\xbf")) rest_.erase(0, 3);
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
  switch (form_of(files_[file_ - 1])) {
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
  chunk.first_line = line_;
  chunk.size = cut;
  chunk.bytes.assign(rest_, 0, cut);
  chunk.bytes.append(Chunk::padding, '\0');
  line_ += std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(cut), '\n');
  rest_.erase(0, cut);
  return true;
}

}  // namespace trireme
