// Names, sizes and samples of bytes.
#include "data/documents/document_doubts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <utility>

#include "base/counted.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/documents/document_looks.h"
#include "data/documents/document_names.h"

namespace trireme {
namespace {

using Strings = std::vector<std::string>;

std::string quoted(const std::string& file) {
  return "'" + file + "'";
}

// "3 files were taken for their first bytes alone: 'a', 'b', 'c'"
std::string sentence(const Strings& items, std::string_view noun, std::string_view of_one,
                     std::string_view of_several) {
  constexpr std::size_t most = 10;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(items.size(), most));
  const std::string rest =
      items.size() <= most ? "" : fmt::format(" and {} more", items.size() - most);
  return fmt::format("{} {}: {}{}", counted(items.size(), noun),
                     items.size() == 1 ? of_one : of_several,
                     fmt::join(items.begin(), items.begin() + shown, ", "), rest);
}

void add_unnamed(const Strings& by_first_bytes, Strings& doubts) {
  if (by_first_bytes.empty()) return;
  Strings names;
  std::ranges::transform(by_first_bytes, std::back_inserter(names), quoted);
  doubts.push_back(sentence(names, "file", "is read because of its contents, not its name",
                            "are read because of their contents, not their names"));
}

void add_texts(const Strings& files, Strings& doubts) {
  Strings texts;
  for (const std::string& file : files)
    if (is_text_name(file)) texts.push_back(file);
  if (texts.size() == files.size()) return;
  std::erase_if(texts, [](const std::string& file) {
    return look_of(first_content(file)) == ContentLook::json_lines;
  });
  if (texts.empty()) return;
  Strings names;
  std::ranges::transform(texts, std::back_inserter(names), quoted);
  const std::string among = fmt::format("among {}", counted(files.size() - texts.size(), "file"));
  doubts.push_back(sentence(names, "text", fmt::format("is read {} of other formats", among),
                            fmt::format("are read {} of other formats", among)));
}

// Hash of samples from the beginning, the middle and the end.
std::uint64_t sample_of(const std::string& path, std::uint64_t size) {
  constexpr std::uint64_t piece = 1 << 14;
  const File file(path, File::Mode::read);
  std::string bytes;
  Hasher hasher;
  for (const std::uint64_t at : {std::uint64_t{0}, size / 2, size - std::min(size, piece)}) {
    bytes.resize(std::min(piece, size - at));
    file.read_at(at, bytes.data(), bytes.size());
    hasher.update(bytes.data(), bytes.size());
  }
  return hasher.digest();
}

void add_same(const Strings& files, Strings& doubts) {
  std::map<std::uint64_t, Strings> by_size;
  for (const std::string& file : files) by_size[fs::file_size(file)].push_back(file);
  Strings copies;
  for (const auto& [size, same_size] : by_size) {
    if (size == 0 || same_size.size() < 2) continue;
    std::map<std::uint64_t, std::string> first;
    for (const std::string& file : same_size) {
      const auto [at, is_new] = first.emplace(sample_of(file, size), file);
      if (!is_new) copies.push_back(fmt::format("'{}' of '{}'", file, at->second));
    }
  }
  if (copies.empty()) return;
  doubts.push_back(sentence(copies, "file",
                            "looks like a copy of another file, so its documents are read twice",
                            "look like copies of other files, so their documents are read twice"));
}

// a.jsonl.gz beside a.jsonl, as `gzip -k` leaves them.
void add_unpacked(const Strings& files, Strings& doubts) {
  std::map<std::string, Strings> by_name;
  for (const std::string& file : files) {
    const fs::path path(file);
    by_name[(path.parent_path() / name_within(path.filename().string())).string()].push_back(file);
  }
  Strings packed;
  for (const auto& [name, same] : by_name) {
    for (const std::string& file : same) {
      const bool is_packed = !compression_named(file).empty();
      if (same.size() > 1 && is_packed) packed.push_back(quoted(file));
    }
  }
  if (packed.empty()) return;
  doubts.push_back(sentence(packed, "compressed file",
                            "lies next to one of the same name with another or no compression, so "
                            "its documents may be read twice",
                            "lie next to others of the same name with another or no compression, "
                            "so their documents may be read twice"));
}

// The split that a word of a file's name or of its folder's names; empty for others.
std::string_view split_named(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> words = {{
      {"train", "train"},
      {"training", "train"},
      {"test", "test"},
      {"testing", "test"},
      {"val", "validation"},
      {"valid", "validation"},
      {"validation", "validation"},
      {"dev", "validation"},
      {"eval", "validation"},
  }};
  const auto found =
      std::ranges::find(words, word, &std::pair<std::string_view, std::string_view>::first);
  return found == words.end() ? std::string_view() : found->second;
}

// By the last of the words that a path consists of.
std::string_view split_of(std::string_view path) {
  std::string_view split;
  std::string word;
  for (const char c : std::string(path) + "/") {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (const std::string_view named = split_named(word); !named.empty()) split = named;
    word.clear();
  }
  return split;
}

// The folder that all files lie in, with its slash.
std::string_view common_folder(const Strings& files) {
  std::string_view common = files.front();
  for (const std::string& file : files) {
    const auto differ = std::ranges::mismatch(common, file).in1;
    common = common.substr(0, static_cast<std::size_t>(differ - common.begin()));
  }
  return common.substr(0, common.rfind('/') + 1);
}

void add_splits(const Strings& files, Strings& doubts) {
  const std::size_t skipped = common_folder(files).size();
  std::map<std::string_view, std::size_t> splits;
  for (const std::string& file : files) {
    const std::string_view split = split_of(std::string_view(file).substr(skipped));
    if (!split.empty()) ++splits[split];
  }
  if (splits.size() < 2) return;
  Strings counts;
  for (const auto& [split, count] : splits)
    counts.push_back(fmt::format("{} ({})", split, counted(count, "file")));
  doubts.push_back(fmt::format(
      "according to their names, files of several splits are read together: {}; give the files or "
      "the folder of one split to read only that one",
      fmt::join(counts, ", ")));
}

}  // namespace

Strings doubts_about(const Strings& files, const Strings& by_first_bytes) {
  Strings doubts;
  if (files.size() < 2) return doubts;
  add_unnamed(by_first_bytes, doubts);
  add_texts(files, doubts);
  add_same(files, doubts);
  add_unpacked(files, doubts);
  add_splits(files, doubts);
  return doubts;
}

}  // namespace trireme
