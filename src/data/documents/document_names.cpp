// Tables of endings and names.
#include "data/documents/document_names.h"

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

struct Ending {
  std::string_view ending, compression;
};
constexpr Ending compressed_endings[] = {
    {".gz", "gzip"},        {".gzip", "gzip"},        {".bgz", "gzip"},
    {".xz", "xz"},          {".zst", "zstd"},         {".zstd", "zstd"},
    {".bz2", "bzip2"},      {".lz4", "lz4"},          {".lzma", "lzma"},
    {".lz", "lzip"},        {".lzo", "lzop"},         {".br", "brotli"},
    {".sz", "snappy"},      {".snappy", "snappy"},    {".z", "compress"},
    {".zip", "zip"},        {".7z", "7-Zip"},         {".rar", "RAR"},
    {".tar", "tar"},        {".tgz", "tar and gzip"}, {".tbz2", "tar and bzip2"},
    {".txz", "tar and xz"}, {".tzst", "tar and zstd"}};

constexpr std::string_view json_endings[] = {".jsonl",     ".json", ".ndjson",
                                             ".jsonlines", ".jl",   ".ldjson"};
constexpr std::string_view columns_endings[] = {".parquet", ".arrow", ".feather", ".pq"};

constexpr std::string_view copies[] = {"~",     ".swp",      ".swo",    ".swn",     ".bak",
                                       ".old",  ".orig",     ".rej",    ".tmp",     ".temp",
                                       ".save", ".autosave", ".backup", ".kate-swp"};
constexpr std::string_view left_behind[] = {".crc",    ".md5",  ".sha1", ".sha256",
                                            ".sha512", ".lock", ".sig",  ".asc"};
constexpr std::string_view unfinished[] = {
    ".part",       ".partial", ".crdownload", ".incomplete", ".download", ".aria2",    ".filepart",
    ".opdownload", ".gstmp",   ".inprogress", ".!qb",        ".!ut",      "._copying_"};
constexpr std::string_view marks[] = {
    "_success",     "_metadata",         "_common_metadata",   "thumbs.db",
    "desktop.ini",  "dataset_info.json", "dataset_infos.json", "dataset_dict.json",
    "state.json",   "manifest.json",     "checksums.txt",      "md5sums.txt",
    "sha1sums.txt", "sha256sums.txt",    "sha512sums.txt",     "requirements.txt",
    "robots.txt"};
// Marks of jobs of Databricks, with a number after them.
constexpr std::string_view begins_of_marks[] = {"_started_", "_committed_"};
constexpr std::string_view about[] = {"readme",    "license", "licence",  "copying",     "notice",
                                      "changelog", "authors", "citation", "dataset_card"};

std::string lower(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

template <class Endings>
bool ends_in(std::string_view name, const Endings& endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) {
    return name.size() > ending.size() && name.ends_with(ending);
  });
}

const Ending* compressed_ending(std::string_view lower_name) {
  for (const Ending& ending : compressed_endings) {
    if (lower_name.size() > ending.ending.size() && lower_name.ends_with(ending.ending))
      return &ending;
  }
  return nullptr;
}

// a.bak1 and a.save.2, without the number.
std::string_view without_number(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789") + 1;
  if (end == 0 || end == name.size()) return name;
  return name.substr(0, name[end - 1] == '.' ? end - 1 : end);
}

bool is_copy(std::string_view name) {
  return ends_in(without_number(name), copies) || (name.starts_with('#') && name.ends_with('#'));
}

// tmpab12cd_9: what Python's tempfile calls a file, `datasets` one that it has not completed.
bool is_temporary_of_python(std::string_view name) {
  return name.size() == 11 && name.starts_with("tmp") &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
}

// README, readme.txt, LICENSE.md, README.en.txt, LICENSE-CC.txt
bool is_about_the_corpus(const std::string& name) {
  const std::string_view first = std::string_view(name).substr(0, name.find('.'));
  const std::string_view word = first.substr(0, first.find_first_of("-_"));
  static constexpr std::string_view text_endings[] = {".txt",  ".md",  ".rst",
                                                      ".html", ".bib", ".cff"};
  const bool text = name.find('.') == name.npos || ends_in(name, text_endings);
  const bool numbered = first.find_first_of("0123456789") != first.npos;  // parts of a corpus
  return text && (std::ranges::find(about, first) != std::end(about) ||
                  (!numbered && (word == "readme" || word == "license" || word == "licence")));
}

}  // namespace

std::string_view compression_named(std::string_view name) {
  const Ending* const ending = compressed_ending(lower(name));
  return ending ? ending->compression : std::string_view();
}

std::string name_within(std::string_view name) {
  std::string within = lower(name);
  while (const Ending* const ending = compressed_ending(within)) {
    within.resize(within.size() - ending->ending.size());
  }
  return within;
}

bool is_text_name(std::string_view name) {
  return name_within(name).ends_with(".txt");
}

bool is_columns_name(std::string_view name) {
  return ends_in(name_within(name), columns_endings);
}

bool is_json_name(std::string_view name) {
  return ends_in(name_within(name), json_endings);
}

std::string_view reason_to_pass_over(std::string_view given) {
  const std::string name = lower(given);
  if (name.starts_with('.')) return "hidden";
  if (is_copy(name) || is_copy(name_within(name))) {
    return "copies that editors and other programs keep";
  }
  if (ends_in(name, unfinished)) return "unfinished downloads";
  if (is_temporary_of_python(name)) return "temporary files of Python";
  const auto begins = [&](std::string_view begin) { return name.starts_with(begin); };
  if (ends_in(name, left_behind) || std::ranges::find(marks, name) != std::end(marks) ||
      std::ranges::any_of(begins_of_marks, begins)) {
    return "marker and list files of other programs";
  }
  if (is_about_the_corpus(name)) return "texts about the corpus";
  return {};
}

}  // namespace trireme
