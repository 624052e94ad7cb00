// From the keys of [data] to a tokenizer, whose files a run keeps under their own names.
#include "data/configured_tokenizer.h"

#include <array>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/capped_tokenizer.h"

namespace trireme {
namespace {

constexpr const char* kept_folder = "tokenizer";
// Companion files of a tokenizer: what is read together with a tokenizer.json, and what an exported
// model needs.
constexpr std::array<const char*, 5> companions = {"tokenizer_config.json", "added_tokens.json",
                                                   "special_tokens_map.json", "chat_template.jinja",
                                                   "generation_config.json"};
constexpr std::uint64_t largest_file = std::uint64_t{1} << 30;

struct PathKey {
  const char* name;
  std::string DataConfig::*path;
};
constexpr PathKey path_keys[] = {{"vocab_file", &DataConfig::vocab_file},
                                 {"merge_file", &DataConfig::merge_file},
                                 {"tokenizer_model", &DataConfig::tokenizer_model}};

// Whether a tokenizer of the configured type reads what this key names.
bool reads(const DataConfig& data, const PathKey& key) {
  const std::string& type = data.tokenizer;
  if (type == "null") return false;
  const bool is_bert = type == "bert" || type == "bert_cased";
  // Without its two files, gpt2 takes a folder that holds both.
  const bool has_two_files =
      type == "gpt2" && !(data.vocab_file.empty() && data.merge_file.empty());
  if (key.path == &DataConfig::vocab_file) return is_bert || has_two_files;
  if (key.path == &DataConfig::merge_file) return has_two_files;
  return !is_bert && !has_two_files;
}

// A file, or a folder of files, that the configuration names, and its name in the run's folder.
struct KeptPath {
  PathKey key;
  std::string name;
};

// The same names for the same configuration, whether the files are there or not.
std::vector<KeptPath> kept_paths(const DataConfig& data) {
  std::vector<KeptPath> kept;
  std::set<std::string> taken;
  for (const PathKey& key : path_keys) {
    fs::path path = fs::path(data.*key.path).lexically_normal();
    if (path.empty() || !reads(data, key)) continue;
    if (!path.has_filename()) path = path.parent_path();
    std::string name = path.filename().string();
    if (name.empty() || name == "." || name == "..") name = "files";
    if (!taken.insert(name).second) name = fmt::format("{}-{}", key.name, name);
    kept.push_back({key, name});
  }
  return kept;
}

void keep_file(const fs::path& from, const fs::path& to) {
  const std::string bytes = read_file(from, largest_file);
  if (fs::exists(to) && read_file(to, largest_file) == bytes) return;
  make_folders(to.parent_path());
  write_file_durably(to, bytes);
}

// The folder in which a run with this run.dir was started, if `run` still lies there, or "".
fs::path started_in(fs::path run, const fs::path& dir) {
  if (dir.is_absolute()) return {};
  const fs::path normal = dir.lexically_normal();
  for (auto part = normal.end(); part != normal.begin();) {
    --part;
    if (part->empty() || *part == ".") continue;
    if (run.filename() != *part) return {};
    run = run.parent_path();
  }
  return run;
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const Config& config) {
  const DataConfig& data = config.data;
  const bool null = data.tokenizer == "null";
  if (null && config.model.vocab_size < 2) {
    fail_input(
        "data.tokenizer = \"null\" does not define the number of ids: set model.vocab_size to "
        "their number plus one, for the end-of-document id");
  }
  auto tokenizer = make_tokenizer({.type = data.tokenizer,
                                   .vocab_file = data.vocab_file,
                                   .merge_file = data.merge_file,
                                   .model_file = data.tokenizer_model,
                                   .pattern = data.tokenizer_pattern,
                                   .vocab_size = null ? config.model.vocab_size - 1 : 0});
  const std::int64_t rows = config.model.vocab_size;
  if (rows == 0 || rows >= tokenizer->vocab_size() || !is_added_from(*tokenizer, rows))
    return tokenizer;
  return std::make_unique<CappedTokenizer>(std::move(tokenizer), static_cast<std::int32_t>(rows));
}

void keep_tokenizer(const Config& config, const fs::path& run) {
  if (config.data.tokenizer.empty()) return;
  for (const KeptPath& kept : kept_paths(config.data)) {
    const fs::path from = config.data.*kept.key.path, to = run / kept_folder / kept.name;
    const bool is_folder = fs::is_directory(from);
    if (!is_folder) keep_file(from, to);
    const fs::path from_folder = is_folder ? from : from.parent_path();
    const fs::path to_folder = is_folder ? to : to.parent_path();
    const auto keep = [&](const char* name) {
      if (fs::exists(from_folder / name)) keep_file(from_folder / name, to_folder / name);
    };
    for (const char* name : companions) keep(name);
    for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt"})
      if (is_folder) keep(name);
  }
}

void locate_tokenizer(Config& config, const Config& saved, const fs::path& run) {
  for (const KeptPath& kept : kept_paths(saved.data)) {
    std::string& path = config.data.*kept.key.path;
    if (path != saved.data.*kept.key.path) continue;  // the caller named another
    const fs::path copy = run / kept_folder / kept.name;
    const fs::path from_start = started_in(run, saved.run.dir) / path;
    if (fs::exists(copy)) {
      path = copy.string();
    } else if (!fs::exists(path) && fs::exists(from_start)) {
      path = from_start.string();
    } else if (!fs::exists(path)) {
      fail_input(
          "the run in '{}' was trained with the tokenizer file '{}', which does not exist "
          "(relative to this folder), and neither does the copy '{}': add --set data.{}=FILE",
          run.string(), path, copy.string(), kept.key.name);
    }
  }
}

}  // namespace trireme
