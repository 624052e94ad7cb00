// Token ids in JSON that users write.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

namespace trireme::cli {

// A list of whole numbers of 32 bits; nothing for anything else. (The library's own conversion cuts
// fractions off and wraps what is too large.)
std::optional<std::vector<std::int32_t>> json_ids(const nlohmann::json& list);

}  // namespace trireme::cli
