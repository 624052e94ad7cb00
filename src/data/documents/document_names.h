// Detects compression and documents by a file's name.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// The compression or archive that a name ends in (".GZ", ".bz2", ".tgz"), as people call it; empty
// for any other name.
std::string_view compression_named(std::string_view name);
// The name without such an ending, in lower case.
std::string name_within(std::string_view name);

// Whether a file is named ".txt", compressed or not.
bool is_text_name(std::string_view name);
// Whether a file is named like Parquet or Arrow.
bool is_columns_name(std::string_view name);
// Whether a file is named like JSON lines, compressed or not.
bool is_json_name(std::string_view name);

// Why a file of this name in a folder holds no document of the corpus: a copy that an editor keeps,
// what a program leaves behind, a text about the corpus. Empty for any other name.
std::string_view reason_to_pass_over(std::string_view name);

}  // namespace trireme
