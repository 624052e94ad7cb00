// Parses token ids in user-written JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

namespace trireme::cli {

// Parses a list of 32-bit integers; empty for anything else. (The JSON library's own conversion
// truncates fractions and wraps values that are too large.)
std::optional<std::vector<std::int32_t>> json_ids(const nlohmann::json& list);

}  // namespace trireme::cli
