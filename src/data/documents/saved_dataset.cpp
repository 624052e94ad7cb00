// state.json of Hugging Face's `datasets`.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/documents/document_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

// The names in a list of {"filename": "data-00000-of-00002.arrow"}.
std::vector<std::string> file_names(const std::string& file, const char* key, const json& list) {
  if (list.is_null()) return {};
  std::vector<std::string> names;
  const auto refuse = [&] {
    fail_input(
        "'{}': expected a list of {{\"filename\": ...}} at \"{}\"; the dataset was written by a "
        "different program, or it is damaged",
        file, key);
  };
  if (!list.is_array()) refuse();
  for (const json& entry : list) {
    const auto name = entry.is_object() ? entry.find("filename") : entry.end();
    if (!entry.is_object() || name == entry.end() || !name->is_string()) refuse();
    names.push_back(fs::path(name->get<std::string>()).filename().string());
  }
  return names;
}

}  // namespace

std::vector<std::string> splits_of_saved_dataset(const fs::path& folder) {
  const fs::path path = folder / "dataset_dict.json";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const json dict = parse_json(read_file(path, std::uint64_t{1} << 20), path.string());
  std::vector<std::string> splits;
  for (const json& split : dict.is_object() ? dict.value("splits", json::array()) : json::array()) {
    if (split.is_string() && fs::is_directory(folder / split.get<std::string>(), error)) {
      splits.push_back(split.get<std::string>());
    }
  }
  return splits;
}

std::optional<std::vector<std::string>> files_of_saved_dataset(const fs::path& folder) {
  const fs::path path = folder / "state.json";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  const std::string file = path.string();
  const json state = parse_json(read_file(path, std::uint64_t{64} << 20), file);
  if (!state.is_object() || !state.contains("_data_files")) return std::nullopt;
  for (const char* const key : {"_indices_files", "_indices_data_files"}) {
    if (state.contains(key) && !file_names(file, key, state[key]).empty()) {
      fail_input(
          "'{}': the dataset is a selection of rows with an indices table (\"{}\"), which is not "
          "supported: load it, call flatten_indices() and save it again",
          file, key);
    }
  }
  std::vector<std::string> names = file_names(file, "_data_files", state["_data_files"]);
  for (const std::string& name : names) {
    if (!fs::exists(folder / name, error)) {
      fail_input("'{}' lists '{}', which does not exist: the dataset is incomplete", file, name);
    }
  }
  return names;
}

}  // namespace trireme
