// Files to units.
#include "data/documents/corpus.h"

#include <algorithm>
#include <limits>

#include "base/counted.h"
#include "base/divide.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/thread_pool.h"
#include "data/documents/text_documents.h"

namespace trireme {
namespace {

// Reads a file in steps, from some byte on.
class Lines {
 public:
  Lines(const std::string& file, std::uint64_t at) : file_(file, File::Mode::read), at_(at) {}

  // Goes behind the end of the line that holds the next byte; false at the end of the file. Says
  // whether there was more than white space.
  bool pass(bool& blank) {
    blank = true;
    for (;;) {
      if (begin_ == bytes_.size() && !refill()) return false;
      const std::size_t end = bytes_.find('\n', begin_);
      const std::size_t last = std::min(end, bytes_.size());
      blank = blank && is_blank(std::string_view(bytes_).substr(begin_, last - begin_));
      begin_ = end == bytes_.npos ? last : end + 1;
      if (end != bytes_.npos) return true;
    }
  }
  std::uint64_t at() const { return at_ - (bytes_.size() - begin_); }

 private:
  bool refill() {
    bytes_.resize(std::min<std::uint64_t>(1 << 16, file_.size() - at_));
    begin_ = 0;
    if (bytes_.empty()) return false;
    file_.read_at(at_, bytes_.data(), bytes_.size());
    at_ += bytes_.size();
    return true;
  }

  File file_;
  std::uint64_t at_;  // behind bytes_
  std::string bytes_;
  std::size_t begin_ = 0;  // of what was not passed
};

}  // namespace

std::uint64_t block_begin(const std::string& file, DocumentForm form, std::uint64_t offset) {
  if (offset == 0) return 0;
  Lines lines(file, offset - 1);
  bool blank = false;
  bool more = lines.pass(blank);
  if (form != DocumentForm::paragraphs) return lines.at();
  std::uint64_t begin = lines.at();
  while (more) {
    begin = lines.at();
    more = lines.pass(blank);
    if (more && blank) return begin;
  }
  return lines.at();
}

Corpus::Corpus(const std::vector<std::string>& patterns, const CorpusOptions& options)
    : options_(options) {
  Inputs inputs = expand_inputs(patterns);
  passed_over_ = std::move(inputs.passed_over);
  doubts_ = std::move(inputs.doubts);
  for (std::string& path : inputs.files) files_.push_back({.path = std::move(path)});
  if (files_.size() > std::numeric_limits<std::int32_t>::max()) {
    fail_input("{} files are more than a source supports", files_.size());
  }
  ThreadPool::global().run(static_cast<std::int64_t>(files_.size()),
                           [&](std::int64_t i, int) { look_into(files_[i]); });
  Hasher hasher;
  hasher.update(options_.key.data(), options_.key.size());
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const FileOfCorpus& file = files_[f];
    for (std::int64_t part = 0; part < file.units; ++part) {
      units_.push_back({static_cast<std::int32_t>(f), part});
    }
    const std::string name = fs::path(file.path).filename().string();
    hasher.update(name.c_str(), name.size() + 1);
    const std::uint64_t numbers[] = {file.bytes, static_cast<std::uint64_t>(file.units),
                                     static_cast<std::uint64_t>(file.form), file.in_blocks};
    hasher.update(numbers, sizeof(numbers));
  }
  if (units_.empty()) fail_input("'{}' contains no row group", files_.front().path);
  const std::uint64_t numbers[] = {options_.block_bytes, options_.skip_bad_rows};
  hasher.update(numbers, sizeof(numbers));
  key_ = hasher.digest();
}

std::vector<std::string> Corpus::large_documents() const {
  std::vector<std::string> found;
  for (const FileOfCorpus& file : files_) {
    if (is_large_document(file.form, file.bytes)) found.push_back(file.path);
  }
  return found;
}

void Corpus::look_into(FileOfCorpus& file) const {
  file.bytes = File(file.path, File::Mode::read).size();
  file.form = form_of(file.path, options_.text, false);
  if (file.form == DocumentForm::row) {
    const ArrowFile columns(file.path, {options_.key});
    file.units = columns.groups();
    if (!options_.skip_bad_rows) refuse_nulls(columns);
  } else if (file.form != DocumentForm::file && !is_compressed(file.path)) {
    file.in_blocks = true;
    file.units = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(ceil_div(file.bytes, options_.block_bytes)));
  }
}

void Corpus::refuse_nulls(const ArrowFile& columns) const {
  for (std::int64_t group = 0; group < columns.groups(); ++group) {
    const std::int64_t nulls = columns.nulls(group, 0).value_or(0);
    if (nulls == 0) continue;
    fail_input(
        "'{}' row group {}: the column \"{}\" has {} of null; expected text in every row "
        "(data.skip_bad_rows = true skips rows without text)",
        columns.path(), group, options_.key, counted(nulls, "value"));
  }
}

std::unique_ptr<ChunkSource> Corpus::open(std::int64_t unit, Opened& last) const {
  const Unit& at = units_[unit];
  const FileOfCorpus& file = files_[at.file];
  if (file.form == DocumentForm::row) {
    if (last.path != file.path) {
      last.file = std::make_shared<const ArrowFile>(file.path, std::vector{options_.key});
      last.path = file.path;
    }
    return std::make_unique<RowChunks>(&file.path, last.file, at.part, at.part + 1);
  }
  if (!file.in_blocks) {
    return std::make_unique<TextChunks>(&file.path, file.form, open_bytes(file.path));
  }
  const auto cut = [&](std::int64_t part) {
    return block_begin(
        file.path, file.form,
        std::min(static_cast<std::uint64_t>(part) * options_.block_bytes, file.bytes));
  };
  const std::uint64_t begin = cut(at.part), end = cut(at.part + 1);
  return std::make_unique<TextChunks>(&file.path, file.form, open_byte_range(file.path, begin, end),
                                      begin);
}

}  // namespace trireme
