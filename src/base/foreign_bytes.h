// Recognizes unexpected files by their first bytes: Git LFS pointers, web pages, compressed files
// and archives, and text that is not UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct ForeignBytes {
  enum class Kind {
    stand_in,    // placeholder for a file stored elsewhere: a Git LFS pointer, a server's refusal
    web_page,    // sent by a server instead of the file; also XML
    compressed,  // gzip, zip, bzip2 etc.
    wide_text,   // UTF-16 or UTF-32
    tokens,      // NumPy arrays, token files of llm.c
  };
  Kind kind;
  std::string what;    // "a pointer of Git LFS and not the file itself"
  std::string remedy;  // "run `git lfs pull` in its folder"
};

// Number of leading bytes that suffice for detection.
inline constexpr std::size_t foreign_bytes_wanted = 1024;

// Recognizes a known kind of file by its first bytes; nullopt if none matches.
std::optional<ForeignBytes> find_foreign_bytes(std::string_view first);

// Throws bad_input (exit code 2): "'FILE' is a web page: ...".
[[noreturn]] void refuse_foreign_bytes(const std::string& file, const ForeignBytes& found);

// For text readers (JSON, vocabularies, settings): throws bad_input for every kind. `content` may
// be longer than foreign_bytes_wanted.
void refuse_if_foreign(const std::string& file, std::string_view content);
// For plain-text readers, which accept web pages: throws bad_input for all other kinds.
void refuse_unless_text(const std::string& file, std::string_view content);
// For binary readers (tensors, archives): throws bad_input only for placeholders and web pages.
void refuse_if_placeholder(const std::string& file, std::string_view content);

}  // namespace trireme
