// Files that are not what their reader expects, known by their first bytes: pointers of Git LFS,
// web pages, compressed files and archives, and text that is not UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct ForeignBytes {
  enum class Kind {
    stand_in,    // in place of a file that is elsewhere: a pointer of Git LFS, a server's refusal
    web_page,    // what a server sends in place of a file; also XML
    compressed,  // gzip, zip, bzip2 and so on
    wide_text,   // UTF-16 or UTF-32
    tokens,      // arrays of NumPy, token files of llm.c
  };
  Kind kind;
  std::string what;    // "a pointer of Git LFS and not the file itself"
  std::string remedy;  // "run `git lfs pull` in its folder"
};

// Bytes at the beginning of a file that are enough.
inline constexpr std::size_t foreign_bytes_wanted = 1024;

// Recognizes a known kind of file by its first bytes.
std::optional<ForeignBytes> find_foreign_bytes(std::string_view first);

// "'FILE' is a web page: ..." as bad input (exit code 2).
[[noreturn]] void refuse_foreign_bytes(const std::string& file, const ForeignBytes& found);

// For a reader of text (JSON, vocabularies, settings): refuses any of them. `content` may be longer
// than what is looked at.
void refuse_if_foreign(const std::string& file, std::string_view content);
// For a reader of plain text, which a web page may be: refuses all others.
void refuse_unless_text(const std::string& file, std::string_view content);
// For a reader of binary files (tensors, archives): rejects only pointers and web pages.
void refuse_if_placeholder(const std::string& file, std::string_view content);

}  // namespace trireme
