// Finds the document files of folders, and reports their other contents.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/documents/document_inputs.h"

namespace trireme {

// The files that belong to a dataset as save_to_disk() of Hugging Face's `datasets` wrote it into
// this folder, in their order; nothing for any other folder. Throws bad_input where state.json is
// damaged, or where rows were selected that only a table of indices tells.
std::optional<std::vector<std::string>> files_of_saved_dataset(const std::filesystem::path& folder);

// The splits of a DatasetDict that save_to_disk() wrote into this folder; empty for any other.
std::vector<std::string> splits_of_saved_dataset(const std::filesystem::path& folder);

class FolderFiles {
 public:
  // Adds everything in a folder and below it. Throws bad_input if there is no document, for
  // dangling links, for folders that cannot be read, and for those of which only a part is meant:
  // tables with a log, several splits of a saved dataset.
  void add_folder(const std::string& folder);
  // A file or folder that matches a pattern: left out are folders and what a name or a saved
  // dataset says to be no document.
  void add_match(const std::filesystem::path& path);

  // Appends documents and skipped files, both in the order of their paths.
  void append_to(Inputs& inputs) &&;

 private:
  struct Found {
    std::string order;  // files are sorted by it
    std::string path;
  };

  void walk(const std::filesystem::path& folder, std::vector<std::filesystem::path>& above);
  void add_entry(const std::filesystem::directory_entry& entry,
                 std::vector<std::filesystem::path>& above);
  void add_file(const std::filesystem::path& path);
  bool take_by_saved_dataset(const std::filesystem::path& path);
  void pass_over(const std::filesystem::path& path, std::string why);

  std::map<std::filesystem::path, std::optional<std::vector<std::string>>> saved_;  // by folder
  std::vector<Found> found_;
  std::vector<std::string> by_first_bytes_;  // of found_, those whose names say nothing
  std::vector<PassedOver> passed_over_;
};

}  // namespace trireme
