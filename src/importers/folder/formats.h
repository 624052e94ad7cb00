// Tables of other programs' formats that `trireme convert` reads and writes.
#pragma once

#include <string>
#include <vector>

#include "formats/dcp/export.h"
#include "formats/foreign_model.h"
#include "formats/huggingface/export.h"
#include "formats/megatron/writer.h"

namespace trireme {

struct ForeignFormat {
  const char *name, *what;
  bool (*is_one)(const fs::path& folder);
  ForeignModel (*open)(const fs::path& folder, const ModelSettings& settings);
  // For formats that do not record the model: opens with a file that describes it.
  ForeignModel (*open_with)(const fs::path& folder, const ModelSettings& settings,
                            const fs::path& config) = nullptr;
};

// Finds a format by name or, if the name is "", by inspecting the folder. Refused (exit code 2):
// unknown names or folders.
const ForeignFormat& foreign_format(const std::string& name, const fs::path& folder);

std::vector<std::string> foreign_format_names();
// One line per format, for --help.
std::string foreign_formats_text();

// A Trireme checkpoint to be written in another format.
struct ExportRequest {
  fs::path checkpoint, to;
  Config config;
  ExportOptions options;
  MegatronLayout layout;
  DcpNames torchtitan = DcpNames::torchtitan;  // release to target with --to torchtitan
};

struct WrittenFormat {
  const char *name, *what;
  ConversionReport (*write)(const ExportRequest& request);
  // The command's options that apply to this format, besides those common to all formats.
  std::vector<std::string> options;

  bool takes(const std::string& option) const;
};

// Returns null if no format has that name.
const WrittenFormat* find_written_format(const std::string& name);
// "hf, dcp or torchtitan".
std::string written_format_names();
std::string written_formats_text();
// Names of the formats that accept an option: "megatron or llama".
std::string formats_with(const std::string& option);

}  // namespace trireme
