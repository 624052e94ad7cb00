// The formats of other programs that `trireme convert` reads: one table.
#pragma once

#include <string>
#include <vector>

#include "interop/foreign_model.h"

namespace trireme::cli {

struct ForeignFormat {
  const char *name, *what;
  bool (*is_one)(const fs::path& folder);
  ForeignModel (*open)(const fs::path& folder, const ModelSettings& settings);
  // Of formats whose files do not say what model they hold: the same with a file that says it.
  ForeignModel (*open_with)(const fs::path& folder, const ModelSettings& settings,
                            const fs::path& config) = nullptr;
};

// By its name, or by looking at the folder where the name is "". Refused (exit code 2): what no
// format recognises.
const ForeignFormat& foreign_format(const std::string& name, const fs::path& folder);

std::vector<std::string> foreign_format_names();
// A line for each, for --help.
std::string foreign_formats_text();

}  // namespace trireme::cli
