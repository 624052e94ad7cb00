// Names of other systems: hints for their keys, sections and files.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Replacement for a key of another system, as the end of a message: "use train.iters: ...". "" for
// names that no system is known to use. Case and '-' for '_' do not matter.
std::string foreign_key_hint(std::string_view section, std::string_view name);

// Whose configuration a text is, with what to do about it; "" if it looks like nobody's. Meant for
// texts that failed to parse or have sections that Trireme does not know.
std::string foreign_file_hint(std::string_view text);

}  // namespace trireme
