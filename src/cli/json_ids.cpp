// Token ids in JSON that users write.
#include "cli/json_ids.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace trireme::cli {
namespace {

bool is_id(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return std::in_range<std::int32_t>(value.get<std::uint64_t>());
  return value.is_number_integer() && std::in_range<std::int32_t>(value.get<std::int64_t>());
}

}  // namespace

std::optional<std::vector<std::int32_t>> json_ids(const nlohmann::json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& value : list) {
    if (!is_id(value)) return std::nullopt;
    ids.push_back(value.get<std::int32_t>());
  }
  return ids;
}

}  // namespace trireme::cli
