// The formats of other programs that `trireme convert` reads and writes: two tables.
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
  // For formats whose files do not say which model they hold: opens with a file that does.
  ForeignModel (*open_with)(const fs::path& folder, const ModelSettings& settings,
                            const fs::path& config) = nullptr;
};

// By its name, or by looking at the folder where the name is "". Refused (exit code 2): what no
// format recognizes.
const ForeignFormat& foreign_format(const std::string& name, const fs::path& folder);

std::vector<std::string> foreign_format_names();
// A line for each, for --help.
std::string foreign_formats_text();

// A checkpoint of ours that is to be written in another format.
struct ExportRequest {
  fs::path checkpoint, to;
  Config config;
  ExportOptions options;
  MegatronLayout layout;
  DcpNames torchtitan = DcpNames::torchtitan;  // of which release, with --to torchtitan
};

struct WrittenFormat {
  const char *name, *what;
  ConversionReport (*write)(const ExportRequest& request);
  // The options of the command that apply to this format, in addition to those of all formats.
  std::vector<std::string> options;

  bool takes(const std::string& option) const;
};

// Null where no format has the name.
const WrittenFormat* find_written_format(const std::string& name);
// "hf, dcp or torchtitan".
std::string written_format_names();
std::string written_formats_text();
// "megatron or llama": which formats take an option.
std::string formats_with(const std::string& option);

}  // namespace trireme
