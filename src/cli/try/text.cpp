// Reads the files in order up to a limit, and splits the text.
#include "cli/try/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/beside_program.h"
#include "base/error.h"
#include "base/file.h"
#include "base/foreign_bytes.h"
#include "base/hash.h"
#include "data/documents/byte_source.h"
#include "data/documents/document_looks.h"
#include "data/documents/text_documents.h"
#include "tokenizer/utf8.h"

namespace trireme::cli {
namespace {

constexpr std::size_t most_text = 16 << 20;      // enough for a short run
constexpr std::size_t least_text = 40'000;       // for a sample to be held out
constexpr std::size_t most_heldout = 256 << 10;  // is evaluated in seconds
constexpr int heldout_every = 20;
constexpr std::size_t least_pieces = 50;

std::string shipped_text() {
  const fs::path file = find_beside_program("try.txt.xz", TRIREME_BUILT_FILES);
  if (file.empty())
    fail_input(
        "no text is installed with this program: give a text file (trireme try FILE), or run "
        "./quickstart in a source tree, which prepares one");
  return file.string();
}

// Decompressed, up to `limit` bytes.
std::string read_content(const std::string& file, std::size_t limit) {
  std::string text(limit, '\0');
  const auto source = open_bytes(file);
  std::size_t size = 0;
  while (size < limit) {
    const std::size_t n = source->read(text.data() + size, limit - size);
    if (n == 0) break;
    size += n;
  }
  text.resize(size);
  return text;
}

void refuse_unless_prose(const std::string& file, std::string_view text) {
  refuse_unless_text(file, text.substr(0, foreign_bytes_wanted));
  const bool has_zeros = text.find('\0') != text.npos;
  if (has_zeros || looks_binary(text.substr(0, 4096)))
    fail_input("'{}' is a binary file: `trireme try` takes plain text", file);
  const ContentLook look = look_of(text.substr(0, 4096));
  if (look == ContentLook::json_lines || look == ContentLook::json)
    fail_input(
        "'{}' holds JSON, and `trireme try` takes plain text; `trireme preprocess` reads JSON "
        "lines",
        file);
}

// Returns where to split a text so that the first part has at most `most` bytes: after a line,
// otherwise after a word, otherwise between two characters.
std::size_t place_to_cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  for (const char end : {'\n', ' '}) {
    const std::size_t at = text.rfind(end, most - 1);
    if (at != text.npos && at >= most / 2) return at + 1;
  }
  std::size_t at = most;
  while (at > 1 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

// The paragraphs; those longer than `most` in parts.
std::vector<std::string_view> pieces_of(std::string_view text, std::size_t most) {
  std::vector<std::string_view> pieces;
  for_each_document(text, DocumentForm::paragraphs, [&](std::string_view paragraph) {
    while (!paragraph.empty()) {
      const std::size_t size = place_to_cut(paragraph, most);
      std::string_view piece = paragraph.substr(0, size);
      paragraph.remove_prefix(size);
      piece = piece.substr(0, piece.find_last_not_of(" \t\r\n") + 1);
      if (!is_blank(piece)) pieces.push_back(piece);
    }
  });
  return pieces;
}

// Every twentieth piece is held out, and others where those happen to be short ones.
void divide(std::string_view text, TryText& result) {
  int number = 0;
  for (const std::string_view piece : pieces_of(text, text.size() / least_pieces)) {
    const std::size_t so_far = result.train.size() + result.heldout.size();
    const bool too_few =
        so_far > text.size() / heldout_every && 2 * heldout_every * result.heldout.size() < so_far;
    const bool held_out = (++number % heldout_every == heldout_every / 2 || too_few) &&
                          result.heldout.size() < most_heldout;
    (held_out ? result.heldout : result.train).append(piece).append("\n\n");
  }
}

}  // namespace

TryText read_try_text(const std::vector<std::string>& files) {
  const std::vector<std::string> inputs =
      files.empty() ? std::vector<std::string>{shipped_text()} : files;
  TryText result;
  std::string text;
  for (const std::string& file : inputs) {
    if (fs::is_directory(file))
      fail_input("'{}' is a folder: give the names of text files in it", file);
    std::string content = read_content(file, most_text + 1);
    if (content.empty()) fail_input("'{}' is empty: give a file with text", file);
    refuse_unless_prose(file, content);
    if (!text.empty()) text += "\n\n";
    text += content;
    if (text.size() <= most_text) continue;
    result.note = fmt::format("only the first {} MiB of text are used", most_text >> 20);
    text.resize(place_to_cut(text, most_text));
    break;
  }
  if (!is_valid_utf8(text)) {
    result.note += result.note.empty() ? "" : "; ";
    result.note +=
        "the text is not UTF-8 throughout: what is ill-formed became U+FFFD; if it has another "
        "encoding, convert it first: iconv -f WINDOWS-1252 -t UTF-8";
    text = to_valid_utf8(text);
  }
  if (text.size() < least_text)
    fail_input("{} {} bytes of text: at least {} are needed, so that there is something to learn",
               files.size() > 1 ? "the files have" : fmt::format("'{}' has", inputs.front()),
               text.size(), least_text);
  divide(text, result);
  if (result.heldout.empty() || result.train.size() + result.heldout.size() < least_text)
    fail_input("'{}' consists of blanks for the most part: give a file with text", inputs.front());
  result.hash = hash64(text);
  return result;
}

}  // namespace trireme::cli
