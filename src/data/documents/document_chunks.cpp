// Reading ahead to the end of a document.
#include "data/documents/document_chunks.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "data/documents/document_names.h"

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

// Texts of a batch in bytes.
std::size_t bytes_of(const RowBatch& rows, std::size_t columns) {
  std::size_t sum = 0;
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows.size(); ++r) {
      for (std::int64_t i = 0; i < rows.texts(c, r); ++i)
        sum += rows.text(c, r, i).value_or("").size();
    }
  }
  return sum;
}

}  // namespace

TextChunks::TextChunks(const std::string* file, DocumentForm form,
                       std::unique_ptr<ByteSource> source, std::uint64_t first_byte)
    : file_(file), form_(form), source_(std::move(source)), first_byte_(first_byte) {
  if (first_byte > 0) return;
  // A byte order mark is not part of the text.
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (fill_rest(mark.size()) && rest_.starts_with(mark)) rest_.erase(0, mark.size());
}

// Reads until `rest_` has `wanted` bytes; false if the file ends before.
bool TextChunks::fill_rest(std::size_t wanted) {
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

std::size_t TextChunks::find_cut() const {
  if (form_ == DocumentForm::file) return kNoCut;
  if (form_ == DocumentForm::paragraphs) return end_of_last_blank_line(rest_);
  const std::size_t end = rest_.rfind('\n');
  return end == rest_.npos ? kNoCut : end + 1;
}

// Whether the compression ratio is beyond that of any text: such a file was made to exhaust memory.
bool TextChunks::is_blown_up() const {
  constexpr std::size_t looked_at = std::size_t{64} << 20;
  constexpr std::uint64_t most_per_byte = 250;
  return rest_.size() >= looked_at && rest_.size() / most_per_byte > source_->consumed();
}

void TextChunks::read_to_cut(std::size_t& cut) {
  for (std::size_t wanted = target; cut == kNoCut;
       wanted = std::min(2 * rest_.size(), document_limit)) {
    if (!fill_rest(wanted)) {
      cut = rest_.size();
    } else {
      cut = find_cut();
    }
    if (cut == kNoCut && (rest_.size() >= document_limit || is_blown_up())) {
      fail_input(
          "'{}': the document that begins at line {} has more than {} MiB{}; split the file into "
          "documents, one per line or separated by blank lines (--documents)",
          *file_, line_, rest_.size() >> 20,
          is_blown_up()
              ? fmt::format(", all from {} KiB of compressed data", source_->consumed() >> 10)
              : "");
    }
  }
}

bool TextChunks::next(Chunk& chunk) {
  if (!fill_rest(1)) return false;
  std::size_t cut = kNoCut;
  try {
    read_to_cut(cut);
    take(cut, chunk.bytes);
  } catch (const std::bad_alloc&) {
    fail(
        "'{}': the document that begins at line {} does not fit in memory (it has more than {} "
        "MiB)",
        *file_, line_, rest_.size() >> 20);
  }
  chunk.rows = nullptr;
  chunk.file = file_;
  chunk.form = form_;
  chunk.first_line = line_;
  chunk.first_byte = first_byte_;
  chunk.size = cut;
  line_ +=
      std::count(chunk.bytes.begin(), chunk.bytes.begin() + static_cast<std::ptrdiff_t>(cut), '\n');
  return true;
}

// Moves the first `cut` bytes of what was read to `bytes`, with the padding of a chunk. A long
// document is not copied, and none keeps its memory for the chunks that follow.
void TextChunks::take(std::size_t cut, std::string& bytes) {
  constexpr std::size_t usual = 4 * target;
  if (cut <= usual) {
    if (bytes.capacity() > usual + Chunk::padding) bytes = std::string();
    bytes.assign(rest_, 0, cut);
    rest_.erase(0, cut);
  } else {
    std::string after = rest_.substr(cut);
    rest_.resize(cut);
    bytes = std::move(rest_);
    rest_ = std::move(after);
  }
  bytes.append(Chunk::padding, '\0');
}

RowChunks::RowChunks(const std::string* name, std::shared_ptr<const ArrowFile> file,
                     std::int64_t first, std::int64_t last)
    : name_(name), file_(std::move(file)), first_(first), last_(last), group_(first - 1) {}

bool RowChunks::next(Chunk& chunk) {
  for (;;) {
    if (!cursor_) {
      if (group_ + 1 >= last_) {
        group_ = last_;
        return false;
      }
      cursor_ = std::make_unique<ArrowFile::Cursor>(*file_, ++group_);
      row_ = 0;
    }
    chunk.rows = cursor_->next();
    if (chunk.rows) break;
    cursor_.reset();
  }
  chunk.bytes.clear();
  chunk.size = bytes_of(*chunk.rows, file_->columns().size());
  chunk.file = name_;
  chunk.form = DocumentForm::row;
  chunk.group = group_;
  chunk.first_row = row_;
  row_ += chunk.rows->size();
  return true;
}

// The library does not say how far it has read.
std::uint64_t RowChunks::consumed_bytes() const {
  if (last_ == first_) return 0;
  const double share = static_cast<double>(std::max(group_ - first_, std::int64_t{0})) /
                       static_cast<double>(last_ - first_);
  return static_cast<std::uint64_t>(share * static_cast<double>(fs::file_size(*name_)));
}

ChunkReader::ChunkReader(std::vector<std::string> files, DocumentForm text, bool all_text,
                         std::vector<std::string> columns)
    : files_(std::move(files)), columns_(std::move(columns)) {
  for (const std::string& file : files_) {
    total_bytes_ += File(file, File::Mode::read).size();
    forms_.push_back(form_of(file, text, all_text));
  }
}

std::vector<std::string> ChunkReader::json_lines_in_txt() const {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (forms_[i] == DocumentForm::json_line && is_text_name(files_[i])) found.push_back(files_[i]);
  }
  return found;
}

std::vector<std::string> ChunkReader::large_documents() const {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (is_large_document(forms_[i], fs::file_size(files_[i]))) found.push_back(files_[i]);
  }
  return found;
}

bool ChunkReader::open_next() {
  if (source_) done_bytes_ += source_->consumed_bytes();
  source_.reset();
  if (file_ == files_.size()) return false;
  const std::string& file = files_[file_];
  if (forms_[file_] == DocumentForm::row) {
    auto rows = std::make_shared<const ArrowFile>(file, columns_);
    const std::int64_t groups = rows->groups();
    source_ = std::make_unique<RowChunks>(&file, std::move(rows), 0, groups);
  } else {
    source_ = std::make_unique<TextChunks>(&file, forms_[file_], open_bytes(file));
  }
  ++file_;
  return true;
}

bool ChunkReader::next(Chunk& chunk) {
  while (!source_ || !source_->next(chunk)) {
    if (!open_next()) return false;
  }
  return true;
}

}  // namespace trireme
