// Folders like users' corpora: documents in files of many names and formats, among leftovers of
// editors, notebooks and other programs; and files that must be rejected.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "data/compress.h"
#include "data/temp_folder.h"

namespace trireme::testing_data {

using namespace std::string_literals;

// Writes every file together with what a simple reader finds in it.
class RandomCorpus {
 public:
  // Creates the folder `root`. All randomness comes from `seed`; Arrow only if it can be read.
  RandomCorpus(const fs::path& root, unsigned seed, bool with_arrow);

  // Returns the texts of all non-empty documents, in the order of their files' paths.
  std::vector<std::string> documents() const;
  // Relative paths of files that are not part of the corpus.
  const std::set<std::string>& passed_over() const { return passed_over_; }
  // The file or folder that must be rejected; empty if there is none.
  const std::string& refused() const { return refused_; }

 private:
  struct File {
    std::string path;
    std::vector<std::string> documents;
  };

  std::size_t below(std::size_t end) { return random_() % end; }
  template <class List>
  auto any_of(const List& list) {
    return std::data(list)[below(std::size(list))];
  }
  std::string word();
  std::string text();
  std::string json_line(std::string& document);
  std::string packed(const std::string& content, std::string& name);
  void write(const std::string& path, const std::string& bytes);
  void add_lines(const std::string& folder);
  void add_text(const std::string& folder);
  void add_saved_dataset(const std::string& folder);
  void add_linked(const std::string& folder);
  void add_cache_of_hub();
  void add_leftover(const std::string& folder);
  void add_refused(const std::string& folder);
  void add_refused_folder();

  fs::path root_;
  std::mt19937 random_;
  bool with_arrow_;
  int files_ = 0;
  std::vector<File> found_;
  std::set<std::string> passed_over_;
  std::string refused_;
};

inline constexpr const char* lfs_pointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n";
inline constexpr const char* page = "<!DOCTYPE html>\n<html><body>Please log in.</body></html>\n";

// Returns ASCII text in characters of `width` bytes, with or without a byte order mark.
inline std::string wide(const std::string& text, std::size_t width, bool big_endian, bool mark) {
  std::string out;
  const auto add = [&](std::uint32_t code) {
    for (std::size_t i = 0; i < width; ++i)
      out += static_cast<char>(code >> 8 * (big_endian ? width - 1 - i : i));
  };
  if (mark) add(0xfeff);
  for (const char c : text) add(static_cast<std::uint32_t>(c));
  return out;
}

inline RandomCorpus::RandomCorpus(const fs::path& root, unsigned seed, bool with_arrow)
    : root_(root), random_(seed), with_arrow_(with_arrow) {
  const std::string folders[] = {"", "part/", "AA/", "a.b/deep/", "_data/"};
  for (std::size_t i = 1 + below(7); i > 0; --i) {
    const std::string folder = any_of(folders);
    const std::size_t kind = below(12);
    if (kind < 6) {
      add_lines(folder);
    } else if (kind < 8) {
      add_text(folder);
    } else if (kind < 10) {
      add_linked(folder);
    } else {
      add_leftover(folder);
    }
  }
  add_lines("");  // at least one document
  for (std::size_t i = below(4); i > 0; --i) add_leftover(any_of(folders));
  if (below(6) == 0) add_cache_of_hub();
  if (with_arrow_ && below(3) == 0) add_saved_dataset("saved/");
  if (below(4) == 0)
    add_refused(any_of(folders));
  else if (below(10) == 0)
    add_refused_folder();
}

inline std::vector<std::string> RandomCorpus::documents() const {
  std::vector<File> sorted = found_;
  std::ranges::sort(sorted, {}, &File::path);
  std::vector<std::string> all;
  for (const File& file : sorted) {
    for (const std::string& document : file.documents) {
      if (!document.empty()) all.push_back(document);
    }
  }
  return all;
}

inline void RandomCorpus::write(const std::string& path, const std::string& bytes) {
  fs::create_directories((root_ / path).parent_path());
  write_bytes((root_ / path).string(), bytes);
}

inline std::string RandomCorpus::word() {
  const char* const words[] = {"river",
                               "stone",
                               "\xc3\xa9t\xc3\xa9",
                               "\xe6\x96\x87",
                               "a",
                               "\xf0\x9f\x91\x8d",
                               "{",
                               "NaN",
                               "1e999",
                               "\xe2\x80\xa8",
                               "#",
                               "//"};
  return any_of(words);
}

inline std::string RandomCorpus::text() {
  std::string out = word();
  for (std::size_t i = below(9); i > 0; --i) out += (below(6) ? " " : "\n") + word();
  return out;
}

// Returns a line whose text is `document`, with irrelevant keys around it.
inline std::string RandomCorpus::json_line(std::string& document) {
  document = below(12) ? text() : "";
  std::string quoted;
  for (const char c : document)
    quoted += c == '\n' ? "\\n"s : c == '"' ? "\\\""s : std::string(1, c);
  const char* const odd[][2] = {{"\\u0041\\ud83d\\udc4d", "A\xf0\x9f\x91\x8d"},
                                {"\\ud83d!", "\xef\xbf\xbd!"},
                                {"\xff\xe2\x82z", "\xef\xbf\xbd\xef\xbf\xbdz"},
                                {"\\/\\t", "/\t"}};
  if (below(4) == 0) {
    const std::size_t which = below(std::size(odd));
    quoted += odd[which][0];
    document += odd[which][1];
  }
  std::string value = "\"" + quoted + "\"";
  if (below(8) == 0) {
    value = "[" + value + ", \"\", \"more\"]";
    document += "more";
  }
  const char* const others[] = {"1e999",
                                "-1e400",
                                "NaN",
                                "-Infinity",
                                "123456789012345678901234567890",
                                "{\"text\": \"not this\"}",
                                "[[], null, \"\\\"\", true]",
                                "\"\"",
                                "0.5e-400"};
  const char* const spaces[] = {"", " ", "\t"};
  std::string line = "{"s + any_of(spaces);
  if (below(3) == 0) line += fmt::format("\"id\": {},", any_of(others));
  if (below(10) == 0) line += "\"text\": \"an earlier value\", ";
  line += fmt::format("{}{}:{}{}", below(8) ? "\"text\"" : "\"te\\u0078t\"", any_of(spaces),
                      any_of(spaces), value);
  if (below(3) == 0) line += fmt::format(", \"score\" : {}", any_of(others));
  return line + any_of(spaces) + "}";
}

// Returns the content as is or compressed, and appends the matching suffix to its name.
inline std::string RandomCorpus::packed(const std::string& content, std::string& name) {
  const std::string padding(below(2) ? 512 + below(600) : 0, '\0');
  const std::size_t cut = content.empty() ? 0 : below(content.size());
  const std::string first = content.substr(0, cut), second = content.substr(cut);
  const char* const gz[] = {".gz", ".GZ", ".gz", ".bgz"};
  const char* const zst[] = {".zst", ".zst", ".zstd"};
  switch (below(9)) {
    case 0:
      name += any_of(gz);
      return gzip(content) + padding;
    case 1:
      name += ".gz";
      return gzip(first) + gzip(second) + padding;
    case 2:
      name += ".xz";
      return xz(first) + padding + xz(second);
    case 3:
      name += any_of(zst);
      return zstd(first) + zstd(second) + padding;
    case 4:
      name += ".zst";
      return skippable_frame("pzstd", static_cast<int>(below(16))) + zstd(content) +
             skippable_frame("end");
    case 5:
      name += ".zst";
      return zstd_window(content, 20 + static_cast<int>(below(10)));
    default:
      return content;
  }
}

inline void RandomCorpus::add_lines(const std::string& folder) {
  File file;
  std::string lines = below(6) ? "" : "\xef\xbb\xbf";
  const char* const ends[] = {"\n", "\r\n", "\n\n", "\n \t\n"};
  const std::string end = any_of(ends);
  const std::size_t count = 1 + below(6);
  for (std::size_t i = 0; i < count; ++i) {
    std::string& document = file.documents.emplace_back();
    lines += json_line(document) + (i + 1 < count || below(2) ? end : "");
  }
  const char* const names[] = {".jsonl", ".json",    ".ndjson", ".JSONL", ".Json", ".jl",
                               "",       ".jsonl.1", ".data",   ".txt",   "_00"};
  std::string name = fmt::format("{}part-{:02}{}", folder, files_++, any_of(names));
  const std::string bytes = packed(lines, name);
  write(name, bytes);
  file.path = name;
  found_.push_back(file);
}

inline void RandomCorpus::add_text(const std::string& folder) {
  File file;
  const std::string content = "x" + text() + (below(2) ? "\r\n" : "");
  file.documents = {content};
  const char* const names[] = {".txt", ".TXT", ".en.txt"};
  std::string name = fmt::format("{}book {:02}{}", folder, files_++, any_of(names));
  const std::string bytes = packed((below(4) ? "" : "\xef\xbb\xbf") + content, name);
  write(name, bytes);
  file.path = name;
  found_.push_back(file);
}

inline void RandomCorpus::add_saved_dataset(const std::string& folder) {
  const std::string data = read_file(std::string(TRIREME_TEST_DATA) + "/columns/stream.arrow");
  write(folder + "data-00000-of-00001.arrow", data);
  write(folder + "state.json",
        "{\"_data_files\": [{\"filename\": \"data-00000-of-00001.arrow\"}], \"_fingerprint\": "
        "\"1\"}");
  write(folder + "dataset_info.json", "{\n  \"builder_name\": \"json\"\n}");
  for (const char* const more :
       {"cache-0123456789abcdef.arrow", "cache-0123456789abcdef_00001_of_00002.arrow",
        "tmp1a2b3c4d", "old-00000.arrow"}) {
    if (below(2)) continue;
    write(folder + more, data);
    passed_over_.insert(folder + more);
  }
  passed_over_.insert({folder + "state.json", folder + "dataset_info.json"});
  found_.push_back(
      {folder + "data-00000-of-00001.arrow", {"one", "t\xc3\xa9xt two", "four\nlines", "five"}});
}

// What a folder may hold besides files with documents: links, and files that hold nothing.
inline void RandomCorpus::add_linked(const std::string& folder) {
  fs::create_directories(root_ / folder);
  const fs::path elsewhere = root_.parent_path() / "elsewhere";
  const std::string document = text();
  const std::string name = fmt::format("{}part-{:02}", folder, files_++);
  switch (below(5)) {
    case 0:
    case 1: {
      const std::string target = fmt::format("{:02}/text.txt", files_);
      fs::create_directories(elsewhere / target.substr(0, 2));
      write_bytes((elsewhere / target).string(), "x" + document);
      const bool whole_folder = below(2) == 0;
      const std::string link = whole_folder ? name : name + ".txt";
      fs::create_symlink(elsewhere / (whole_folder ? target.substr(0, 2) : target), root_ / link);
      found_.push_back({whole_folder ? link + "/text.txt" : link, {"x" + document}});
      break;
    }
    case 2:
      fs::create_symlink(root_, root_ / name);
      passed_over_.insert(name);
      break;
    case 3:
      write(name + ".jsonl", below(2) ? "" : "\n \n");
      break;
    default:
      write(name + ".txt.gz", gzip(""));
  }
}

// Two revisions of a dataset, of which the cache names one.
inline void RandomCorpus::add_cache_of_hub() {
  for (const char* const revision : {"0a1b", "2c3d"}) {
    const std::string file = fmt::format("hub/snapshots/{}/a.jsonl", revision);
    write(file, fmt::format("{{\"text\": \"of {}\"}}\n", revision));
    if (revision == std::string("2c3d")) found_.push_back({file, {"of 2c3d"}});
  }
  write("hub/refs/main", "2c3d");
  passed_over_.insert({"hub/refs", "hub/snapshots/0a1b"});
}

inline void RandomCorpus::add_leftover(const std::string& folder) {
  const std::string document = "{\"text\": \"a copy\"}\n";
  const std::string number = fmt::format("part-{:02}.jsonl", files_++);
  const std::string names[] = {
      number + "~",          "#" + number + "#",  "." + number + ".swp",
      number + ".bak",       "_SUCCESS",          ".DS_Store",
      "README.md",           "readme.txt",        "LICENSE",
      "." + number + ".crc", number + ".tmp",     number + ".crdownload",
      number + ".lock",      "notes.md",          "table.csv",
      "Thumbs.db",           number + ".gz.orig", "cache-00112233445566aa.arrow"};
  std::string name = folder + any_of(names);
  if (below(5) == 0) {
    const char* const hidden[] = {".ipynb_checkpoints", ".cache", "_temporary", "__pycache__"};
    const std::string inner = any_of(hidden);
    write(folder + inner + "/part-checkpoint.jsonl", document);
    passed_over_.insert(folder + inner);
    return;
  }
  const bool table = name.ends_with(".csv") || name.ends_with(".md");
  write(name, table ? "id,text\n1,no document\n" : document);
  passed_over_.insert(name);
}

inline void RandomCorpus::add_refused(const std::string& folder) {
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  const std::string long_lines = [&] {
    std::string all;
    for (int i = 0; i < 3000; ++i)
      all += fmt::format("{{\"text\": \"line {} of many\"}}\n", i * 7919 % 3001);
    return all;
  }();
  const std::string whole = gzip(long_lines);
  const std::pair<std::string, std::string> files[] = {
      {"z.jsonl.bz2", "BZh91AY&SY]\xf2\xfd\x33"},
      {"z.txt", "BZh91AY&SY]\xf2\xfd\x33"},
      {"z.txt.lz4", "\x04\"M\x18@@\xc0 {\"text\""},
      {"z.jsonl.lzma", "]\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0="s},
      {"z.jsonl.br", "\x0b\x05\x80{\"text\""},
      {"z.zip", "PK\x03\x04\x14\0\0\0"s},
      {"z.tar.gz", gzip("a.jsonl" + std::string(250, '\0') + "ustar" + std::string(250, '\0'))},
      {"z.jsonl", wide(lines, 2, false, true)},
      {"z.txt", wide("some text", 2, true, true)},
      {"z.jsonl", wide(lines, 2, true, false)},
      {"z.txt", wide("some text", 4, false, true)},
      {"z.jsonl", wide(lines, 4, true, true)},
      {"z.txt", wide("some text", 4, false, false)},
      {"z.txt.gz", gzip(wide("some text", 2, false, true))},
      {"z.txt", lfs_pointer},
      {"z.parquet", lfs_pointer},
      {"z.jsonl", "# xet version 0\nfilesize = 100\nhash = \"0a1b\"\n"},
      {"z.jsonl", "/annex/objects/SHA256E-s100--0a1b.jsonl\n"},
      {"z.txt", "../../.git/annex/objects/1x/2y/SHA256E-s100--0a1b.txt/SHA256E-s100--0a1b.txt"},
      {"z.parquet", "../../blobs/0a1b2c"},
      {"z.txt.gz", "\0GITCRYPT\0\x12\x34\x56\x78"s},
      {"z.jsonl", "Entry not found"},
      {"z.txt", "Invalid username or password."},
      {"z.jsonl", "{\"error\":\"Repository not found\"}"},
      {"z.txt", "Access to dataset some/data is restricted. You must be logged in."},
      {"z.jsonl", "\x93NUMPY\x01\0v\0"s},
      {"z.txt", "some text\0and more"s},
      {"z.arrow", "not Arrow"},
      {"z.jsonl", page},
      {"z.txt", page},
      {"z.jsonl.gz", whole.substr(0, whole.size() / 2)},
      {"z.jsonl.gz", gzip(lines) + "garbage"},
      {"z.jsonl.gz", lines},
      {"z.jsonl.zst", zstd_window(lines, 36)},
      {"z.json", "[\n{\"text\": \"one\"}\n]\n"},
      {"z.json", "{\n  \"text\": \"one\"\n}\n"},
      {"z.jsonl", "{\"body\": \"one\"}\n"},
      {"z.jsonl", lines + "{\"text\": 5}\n"},
      {"z.jsonl", lines + "{\"text\": \"cut"},
      {"z.jsonl", lines + std::string(100, '\0')},
      {"wiki_00", "<doc id=\"12\" url=\"\" title=\"A\">\nA text\n</doc>\n"},
      {"z.txt", "\x8b\x03\x80{\x01\x02\xff\xfe\x03 some bytes"},
  };
  const std::size_t which = below(std::size(files) + 1);
  if (which == std::size(files)) {
    refused_ = folder + "z.jsonl";
    fs::create_directories(root_ / folder);
    return fs::create_symlink("nowhere", root_ / refused_);
  }
  const auto& [name, bytes] = files[which];
  refused_ = folder + name;
  write(refused_, bytes);
}

// Adds folders that are not to be read as a whole: splits, a table with a log, cache revisions.
inline void RandomCorpus::add_refused_folder() {
  const std::string line = "{\"text\": \"one of them\"}\n";
  switch (below(3)) {
    case 0:
      refused_ = "dict";
      write("dict/dataset_dict.json", "{\"splits\": [\"train\", \"test\"]}");
      write("dict/train/a.jsonl", line);
      write("dict/test/a.jsonl", line);
      break;
    case 1:
      refused_ = "table";
      write(fmt::format("table/{}/0.json",
                        any_of(std::vector{"_delta_log", "_spark_metadata", ".hoodie"})),
            "{}");
      write("table/a.jsonl", line);
      break;
    default:
      refused_ = "old/snapshots";
      for (const char* const revision : {"0a1b", "2c3d"})
        write(fmt::format("old/snapshots/{}/a.jsonl", revision), line);
      write("old/refs/main", "4e5f");
  }
}

}  // namespace trireme::testing_data
