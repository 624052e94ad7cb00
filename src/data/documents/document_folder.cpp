// A walk through folders that names all that it does not take.
#include "data/documents/document_folder.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/foreign_bytes.h"
#include "data/documents/arrow_file.h"
#include "data/documents/byte_source.h"
#include "data/documents/document_doubts.h"
#include "data/documents/document_looks.h"
#include "data/documents/document_names.h"

namespace trireme {
namespace {

constexpr std::string_view folders_of_programs[] = {
    "_temporary",   "__pycache__", "__MACOSX", "lost+found",
    "$RECYCLE.BIN", "#recycle",    "@eaDir",   "System Volume Information"};

// Tables whose own log says which of their files count: others hold rows that were replaced.
struct TableLog {
  const char* folder;
  const char* of;
};
constexpr TableLog table_logs[] = {{"_delta_log", "a Delta table"},
                                   {"_spark_metadata", "the output of a Spark stream"},
                                   {".hoodie", "a Hudi table"}};

void refuse_table(const fs::path& folder) {
  std::error_code error;
  for (const TableLog& log : table_logs) {
    if (!fs::is_directory(folder / log.folder, error)) continue;
    fail_input(
        "'{}' is {}, whose valid files are listed in '{}', which is not supported: export the "
        "table, or give the files, such as '{}'",
        folder.string(), log.of, log.folder, (folder / "*.parquet").string());
  }
}

// A DatasetDict that save_to_disk() wrote: the folders in it are splits.
void refuse_splits(const fs::path& folder) {
  const std::vector<std::string> splits = splits_of_saved_dataset(folder);
  if (splits.size() < 2) return;
  fail_input(
      "'{}' is a saved dataset with the splits {}: give the folders of those to read, such as "
      "'{}'",
      folder.string(), fmt::join(splits, ", "), (folder / splits[0]).string());
}

// cache-*.arrow, which `datasets` writes next to the data for each step that it has computed.
bool is_cache_name(std::string_view name) {
  return name.starts_with("cache-") && name.ends_with(".arrow");
}

// Returns the revision in `snapshots`, a folder of a Hugging Face Hub cache, that refs/main names;
// empty for other folders and if there is only one revision.
std::string revision_in_use(const fs::path& snapshots) {
  const fs::path refs = snapshots / ".." / "refs";
  std::error_code error;
  if (fs::absolute(snapshots / ".").lexically_normal().parent_path().filename() != "snapshots" ||
      !fs::is_directory(refs, error)) {
    return {};
  }
  std::vector<std::string> revisions;
  for (const fs::directory_entry& entry : fs::directory_iterator(snapshots)) {
    if (entry.is_directory()) revisions.push_back(entry.path().filename().string());
  }
  if (revisions.size() < 2) return {};
  const std::string main =
      fs::is_regular_file(refs / "main") ? read_file(refs / "main", 256) : std::string();
  const std::string named = main.substr(0, main.find_first_of(" \r\n"));
  if (std::ranges::find(revisions, named) != revisions.end()) return named;
  fail_input(
      "'{}' contains {} revisions of a dataset, and refs/main refers to none of them: give the "
      "folder of one",
      snapshots.string(), revisions.size());
}

// Whether a file whose name says nothing begins like documents, or like what might hold some.
bool begins_like_documents(const fs::path& path) {
  if (is_arrow_file(path)) return true;
  std::string first(foreign_bytes_wanted, '\0');
  first.resize(open_byte_range(path, 0, first.size())->read(first.data(), first.size()));
  if (first.starts_with("PK\x03\x04")) return false;  // as documents and programs of many kinds do
  const ContentLook look = look_of(first_content(path));
  return look == ContentLook::json_lines || look == ContentLook::wiki_text;
}

}  // namespace

void FolderFiles::pass_over(const fs::path& path, std::string why) {
  passed_over_.push_back({path.string(), std::move(why)});
}

void FolderFiles::add_folder(const std::string& folder) {
  std::vector<fs::path> above;
  walk(folder, above);
  if (!found_.empty()) return;
  std::string rest;
  for (const std::string& line : lines_about(passed_over_)) rest += "; " + line;
  fail_input(
      "the folder '{}' contains no documents: expected .parquet, .arrow, .jsonl, .json, .ndjson or "
      ".txt files in it or below it (all but the first two also compressed: .gz, .xz, .zst){}",
      folder, rest);
}

void FolderFiles::walk(const fs::path& folder, std::vector<fs::path>& above) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) fail_input("cannot read the folder '{}': {}", folder.string(), error.message());
  refuse_table(folder);
  refuse_splits(folder);
  const std::string revision = revision_in_use(folder);
  above.push_back(fs::canonical(folder));
  std::vector<fs::directory_entry> sorted(entries, fs::directory_iterator{});
  std::ranges::sort(sorted, {}, [](const auto& entry) { return entry.path().native(); });
  for (const fs::directory_entry& entry : sorted) {
    if (!revision.empty() && entry.path().filename() != revision) {
      pass_over(entry.path(), "revisions in a Hub cache other than the one in refs/main");
    } else {
      add_entry(entry, above);
    }
  }
  above.pop_back();
}

void FolderFiles::add_entry(const fs::directory_entry& entry, std::vector<fs::path>& above) {
  const fs::path& path = entry.path();
  const std::string name = path.filename().string();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const bool folder = fs::is_directory(status);
  if (folder && name.starts_with('.')) return pass_over(path, "hidden folders");
  if (!folder) {
    if (const std::string_view why = reason_to_pass_over(name); !why.empty()) {
      return pass_over(path, std::string(why));
    }
  }
  if (status.type() == fs::file_type::not_found || error) {
    if (!fs::is_symlink(entry.symlink_status(error))) {
      fail_input("cannot read '{}' of the folder", path.string());
    }
    fail_input("'{}' is a link to '{}', which does not exist: download it, or remove the link",
               path.string(), fs::read_symlink(path, error).string());
  }
  if (!folder) {
    if (!fs::is_regular_file(status)) return pass_over(path, "neither files nor folders");
    return add_file(path);
  }
  if (std::ranges::find(folders_of_programs, name) != std::end(folders_of_programs)) {
    return pass_over(path, "folders of other programs");
  }
  if (name.ends_with(".incomplete")) return pass_over(path, "unfinished downloads");
  // A cache of the Hub: snapshots/ holds links to what blobs/ holds under other names.
  if ((name == "blobs" || name == "refs") && fs::is_directory(path.parent_path() / "snapshots")) {
    return pass_over(path, "files that snapshots/ next to it links to");
  }
  if (std::ranges::find(above, fs::canonical(path)) != above.end()) {
    return pass_over(path, "links to a parent folder");
  }
  walk(path, above);
}

bool FolderFiles::take_by_saved_dataset(const fs::path& path) {
  const fs::path folder = path.parent_path();
  auto saved = saved_.find(folder);
  if (saved == saved_.end()) saved = saved_.emplace(folder, files_of_saved_dataset(folder)).first;
  if (!saved->second) return false;
  const auto place = std::ranges::find(*saved->second, path.filename().string());
  if (place == saved->second->end()) {
    pass_over(path, "not listed in state.json of the saved dataset");
  } else {
    found_.push_back(
        {fmt::format("{}/{:08}", folder.string(), place - saved->second->begin()), path.string()});
  }
  return true;
}

void FolderFiles::add_file(const fs::path& path) {
  if (take_by_saved_dataset(path)) return;
  const std::string name = path.filename().string();
  if (is_cache_name(name)) return pass_over(path, "caches of `datasets`");
  const bool named = is_columns_name(name) || is_text_name(name) || is_json_name(name) ||
                     !compression_named(name).empty();
  if (named || begins_like_documents(path)) {
    found_.push_back({path.string(), path.string()});
    if (!named) by_first_bytes_.push_back(path.string());
  } else {
    pass_over(path, "not documents, according to their names or contents");
  }
}

void FolderFiles::add_match(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return pass_over(path, "folders that match a pattern");
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return pass_over(path, "neither files nor folders");
  }
  const std::string_view why = reason_to_pass_over(name);
  if (!why.empty() && why != "hidden" && why != "texts about the corpus") {
    return pass_over(path, std::string(why));
  }
  if (take_by_saved_dataset(path)) return;
  if (is_cache_name(name)) return pass_over(path, "caches of `datasets`");
  found_.push_back({path.string(), path.string()});
}

void FolderFiles::append_to(Inputs& inputs) && {
  std::ranges::stable_sort(found_, {}, &Found::order);
  std::vector<std::string> files;
  for (const Found& file : found_) files.push_back(file.path);
  std::ranges::move(doubts_about(files, by_first_bytes_), std::back_inserter(inputs.doubts));
  for (Found& file : found_) inputs.files.push_back(std::move(file.path));
  std::ranges::move(passed_over_, std::back_inserter(inputs.passed_over));
}

}  // namespace trireme
