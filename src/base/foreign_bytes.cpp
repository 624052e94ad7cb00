// Detects foreign formats by magic numbers, and wide text encodings by their first characters.
#include "base/foreign_bytes.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>

#include "base/error.h"

namespace trireme {
namespace {

using Kind = ForeignBytes::Kind;
using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  std::string_view what, command;
};

constexpr Magic compressed_magics[] = {
    {"\x1f\x8b"sv, "compressed with gzip", "gzip -d"},
    {"\xfd"
     "7zXZ\0"sv,
     "compressed with xz", "xz -d"},
    {"\x28\xb5\x2f\xfd"sv, "compressed with zstd", "zstd -d"},
    {"BZh"sv, "compressed with bzip2", "bzip2 -d"},
    {"\x04\x22\x4d\x18"sv, "compressed with lz4", "lz4 -d"},
    {"\x02\x21\x4c\x18"sv, "compressed with lz4 (its legacy format)", "lz4 -d"},
    {"LZIP\x01"sv, "compressed with lzip", "lzip -d"},
    {"LZIP\0"sv, "compressed with lzip", "lzip -d"},
    {"\x89LZO\0\r\n\x1a\n"sv, "compressed with lzop", "lzop -d"},
    {"\x1f\x9d"sv, "compressed with compress", "uncompress"},
    {"\x1f\xa0"sv, "compressed with compress -H", "uncompress"},
    {"\x1f\x1e"sv, "compressed with pack", "unpack"},
    {"\xff\x06\0\0sNaPpY"sv, "compressed with snappy", "snzip -d"},
    {"PK\x03\x04"sv, "a zip archive", "unzip"},
    {"PK\x05\x06"sv, "an empty zip archive", "unzip"},
    {"PK\x07\x08"sv, "a zip archive in parts", "unzip"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7-Zip archive", "7z x"},
    {"Rar!\x1a\x07"sv, "a RAR archive", "unrar x"},
};

std::uint32_t little_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

// A .lzma header has no magic number: it has properties, a dictionary size of 2^n or 2^n + 2^(n-1)
// bytes, and an uncompressed size that is unknown or below 256 GiB (the heuristic of the xz tools).
bool is_lzma(std::string_view bytes) {
  if (bytes.size() < 13 || static_cast<unsigned char>(bytes[0]) >= 9 * 5 * 5) return false;
  const std::uint32_t dictionary = little_u32(bytes, 1);
  const std::uint32_t rest = dictionary & (dictionary - 1);
  if (dictionary < 4096 ||
      (rest != 0 && ((rest & (rest - 1)) != 0 || dictionary - rest != rest / 2))) {
    return false;
  }
  const std::uint64_t size = little_u32(bytes, 5) | std::uint64_t{little_u32(bytes, 9)} << 32;
  return size == std::numeric_limits<std::uint64_t>::max() || size < std::uint64_t{1} << 38;
}

bool is_tar(std::string_view bytes) {
  return bytes.size() > 262 && bytes.substr(257, 5) == "ustar" && bytes[0] != '\0';
}

// bzip2's magic number could begin a text, so the block or end marker after it is checked too.
bool is_bzip2(std::string_view bytes) {
  return bytes.size() >= 10 && bytes[3] >= '1' && bytes[3] <= '9' &&
         (bytes.substr(4, 6) == "1AY&SY" || bytes.substr(4, 6) == "\x17\x72\x45\x38\x50\x90");
}

ForeignBytes as_compressed(std::string_view what, std::string_view command) {
  return {Kind::compressed, std::string(what), fmt::format("unpack it first (`{}`)", command)};
}

std::optional<ForeignBytes> compressed(std::string_view bytes) {
  for (const Magic& magic : compressed_magics) {
    if (!bytes.starts_with(magic.bytes)) continue;
    if (magic.bytes == "BZh" && !is_bzip2(bytes)) continue;
    return as_compressed(magic.what, magic.command);
  }
  // Skippable frames, 0x184D2A50 to 0x184D2A5F, which zstd and lz4 share.
  if (bytes.size() >= 8 && (little_u32(bytes, 0) & 0xFFFFFFF0) == 0x184D2A50) {
    return as_compressed("compressed with zstd or lz4 (it begins with a skippable frame)",
                         "zstd -d");
  }
  if (is_tar(bytes)) return as_compressed("a tar archive", "tar -xf");
  return std::nullopt;
}

// Whether the bytes begin with two ASCII characters of `width` bytes each, in which only the byte
// at `value_at` is not NUL.
bool two_characters(std::string_view bytes, std::size_t width, std::size_t value_at) {
  if (bytes.size() < 2 * width) return false;
  for (std::size_t i = 0; i < 2 * width; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const bool ascii = (byte >= ' ' && byte < 0x7f) || byte == '\n' || byte == '\r' || byte == '\t';
    if (i % width == value_at ? !ascii : byte != 0) return false;
  }
  return true;
}

// Detected by the byte order mark, or by two ASCII characters at the beginning.
std::string_view wide_encoding(std::string_view bytes) {
  if (bytes.starts_with("\xff\xfe\0\0"sv) || two_characters(bytes, 4, 0)) return "UTF-32LE";
  if (bytes.starts_with("\0\0\xfe\xff"sv) || two_characters(bytes, 4, 3)) return "UTF-32BE";
  if (bytes.starts_with("\xff\xfe") || two_characters(bytes, 2, 0)) return "UTF-16LE";
  if (bytes.starts_with("\xfe\xff") || two_characters(bytes, 2, 1)) return "UTF-16BE";
  return {};
}

bool starts_with_any_case(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  return std::equal(lower.begin(), lower.end(), text.begin(), [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
  });
}

bool is_page(std::string_view bytes) {
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  for (const std::string_view begin :
       {"<!doctype html"sv, "<html"sv, "<head>"sv, "<body"sv, "<?xml "sv, "<error>"sv, "<svg "sv,
        "<mediawiki"sv, "<rss "sv, "<feed "sv}) {
    if (starts_with_any_case(bytes, begin)) return true;
  }
  return false;
}

// Placeholders: pointers (Git LFS, Xet, git-annex), link targets, encrypted files.
std::optional<ForeignBytes> stand_in(std::string_view bytes) {
  const auto begins = [&](std::string_view begin) { return bytes.starts_with(begin); };
  if (begins("version https://git-lfs.github.com/spec/") ||
      begins("version https://hawser.github.com/spec/") || begins("version http://git-media.io/")) {
    return ForeignBytes{Kind::stand_in, "a Git LFS pointer, not the file itself",
                        "run `git lfs pull` in its repository, or download the file"};
  }
  if (begins("# xet version ")) {
    return ForeignBytes{Kind::stand_in, "a Xet pointer, not the file itself",
                        "download the file, with `hf download`"};
  }
  const std::string_view line = bytes.substr(0, bytes.find_first_of("\r\n"));
  const bool one_word = line.find_first_of(" \t") == line.npos;
  if (one_word &&
      (begins("/annex/objects/") || (begins("../") && line.find("/annex/objects/") != line.npos) ||
       begins(".git/annex/objects/"))) {
    return ForeignBytes{Kind::stand_in, "a git-annex pointer, not the file itself",
                        "run `git annex get` in its repository"};
  }
  // A symbolic link of a Hugging Face Hub cache that was copied as a text file with its target.
  constexpr std::string_view blobs = "../blobs/";
  const std::size_t at = line.find(blobs);
  if (begins("../") && at != line.npos &&
      line.find_first_not_of("0123456789abcdef", at + blobs.size()) == line.npos) {
    return ForeignBytes{Kind::stand_in, "the target of a link, not the file itself",
                        "copy the folder again with `cp -L`, or download the file"};
  }
  if (begins("\0GITCRYPT\0"sv)) {
    return ForeignBytes{Kind::stand_in, "encrypted with git-crypt",
                        "run `git-crypt unlock` in its repository"};
  }
  return std::nullopt;
}

// Whether `bytes`, a whole file, is a server's short error response instead of the file.
bool is_refusal_of_server(std::string_view bytes) {
  if (bytes.size() >= foreign_bytes_wanted) return false;
  bytes = bytes.substr(0, bytes.find_last_not_of(" .\r\n") + 1);
  for (const std::string_view whole :
       {"Entry not found"sv, "Repository not found"sv, "Not Found"sv, "404: Not Found"sv,
        "Invalid username or password"sv, "403: Forbidden"sv, "Forbidden"sv, "Unauthorized"sv,
        "429: Too Many Requests"sv, "Too Many Requests"sv, "Bad Gateway"sv, "Service Unavailable"sv,
        "Gateway Timeout"sv, "Internal Server Error"sv, "{\"error\":\"Repository not found\"}"sv,
        "{\"error\":\"Entry not found\"}"sv}) {
    if (bytes == whole) return true;
  }
  return (bytes.starts_with("Access to model ") || bytes.starts_with("Access to dataset ")) &&
         bytes.find(" is restricted") != bytes.npos;
}

std::optional<ForeignBytes> tokens(std::string_view bytes) {
  constexpr std::uint32_t llmc_u16 = 20240520, llmc_u32 = 20240801;
  if (bytes.starts_with("\x93NUMPY")) {
    return ForeignBytes{Kind::tokens, "a NumPy array",
                        "create token files from the text with `trireme preprocess`"};
  }
  const std::uint32_t magic = bytes.size() >= 8 ? little_u32(bytes, 0) : 0;
  if (magic == llmc_u16 || magic == llmc_u32) {
    return ForeignBytes{Kind::tokens, "a token file of llm.c",
                        "create token files from the text with `trireme preprocess`"};
  }
  return std::nullopt;
}

// Formats that begin like text and hold texts in another form.
std::optional<ForeignBytes> document(std::string_view bytes) {
  constexpr std::tuple<std::string_view, const char*, const char*> formats[] = {
      {"%PDF-", "a PDF document", "pdftotext"},
      {"%!PS", "a PostScript document", "ps2ascii"},
      {"{\\rtf1", "an RTF document", "unrtf --text"},
  };
  for (const auto& [begin, what, command] : formats) {
    if (bytes.starts_with(begin))
      return ForeignBytes{Kind::stand_in, what,
                          fmt::format("extract its text first (`{}`)", command)};
  }
  if (bytes.starts_with("WARC/1.") || bytes.starts_with("WARC/0."))
    return ForeignBytes{Kind::stand_in, "a WARC archive of web pages",
                        "extract the texts of its records first"};
  return std::nullopt;
}

}  // namespace

std::optional<ForeignBytes> find_foreign_bytes(std::string_view first) {
  first = first.substr(0, foreign_bytes_wanted);
  if (auto found = stand_in(first)) return found;
  if (is_refusal_of_server(first)) {
    return ForeignBytes{Kind::stand_in, "a server's error response, not the expected file",
                        "download it again, after logging in if the server requires it"};
  }
  if (is_page(first)) {
    return ForeignBytes{Kind::web_page, "a web page or XML, not the expected file",
                        "download it again, after logging in if the server requires it"};
  }
  if (auto found = tokens(first)) return found;
  if (auto found = document(first)) return found;
  if (auto found = compressed(first)) return found;
  if (const std::string_view encoding = wide_encoding(first); !encoding.empty()) {
    const std::string family(encoding.substr(0, 6));
    return ForeignBytes{
        Kind::wide_text, fmt::format("text in {}", family),
        fmt::format("convert it to UTF-8 first (`iconv -f {} -t UTF-8`)", encoding)};
  }
  // Checked after wide texts, some of which look like lzma.
  if (is_lzma(first)) return as_compressed("compressed with lzma", "xz -d --format=lzma");
  return std::nullopt;
}

void refuse_foreign_bytes(const std::string& file, const ForeignBytes& found) {
  fail_input("'{}' is {}: {}", file, found.what, found.remedy);
}

void refuse_if_foreign(const std::string& file, std::string_view content) {
  if (const auto found = find_foreign_bytes(content)) refuse_foreign_bytes(file, *found);
}

void refuse_unless_text(const std::string& file, std::string_view content) {
  const auto found = find_foreign_bytes(content);
  if (found && found->kind != Kind::web_page) refuse_foreign_bytes(file, *found);
}

void refuse_if_placeholder(const std::string& file, std::string_view content) {
  const auto found = find_foreign_bytes(content);
  if (found && (found->kind == Kind::stand_in || found->kind == Kind::web_page)) {
    refuse_foreign_bytes(file, *found);
  }
}

}  // namespace trireme
