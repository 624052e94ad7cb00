// Hints for keys, sections and files of other systems.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Replacement for another system's key, as the end of a message: "use train.iters: ...". "" for
// unknown names. Case-insensitive; '-' and '_' are equivalent.
std::string foreign_key_hint(std::string_view section, std::string_view name);

// Identifies the system whose configuration a text is, with advice; "" if not recognized. For texts
// that failed to parse or have sections unknown to Trireme.
std::string foreign_file_hint(std::string_view text);

}  // namespace trireme
