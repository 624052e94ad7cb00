// Translates the section curriculum_learning, key by key.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

using Json = nlohmann::json;

constexpr const char* kFlag = "--curriculum-learning-legacy";
constexpr const char* kSection = "curriculum_learning";

// Value of --seq-length or its alias.
std::int64_t sequence_length(const Draft& draft) {
  return draft.integer("--seq-length", draft.integer("--encoder-seq-length", 0));
}

void translate(Draft& draft, const JsonSection& section, const std::string& origin) {
  if (section.text("curriculum_type") != "seqlen") {
    section.refuse("curriculum_type",
                   "but only \"seqlen\" (sequence-length curriculum) is supported");
  }
  const std::string type = section.text("schedule_type");
  if (type != "fixed_linear" && type != "fixed_root") {
    section.refuse("schedule_type", "but only fixed_linear and fixed_root are supported");
  }
  const std::int64_t longest = section.count("max_difficulty");
  const std::int64_t length = sequence_length(draft);
  if (length > 0 && length != longest) {
    section.refuse(
        "max_difficulty",
        fmt::format("but --seq-length is {}: a curriculum must end with the full length", length));
  }
  const JsonSection schedule = section.section("schedule_config");
  const auto set = [&](const char* key, std::int64_t value) {
    draft.set(key, fmt::format("{}", value), origin);
  };
  draft.set_text("curriculum.schedule", type, origin);
  set("curriculum.min_length", section.count("min_difficulty"));
  set("curriculum.iters", schedule.count("total_curriculum_step"));
  set("curriculum.length_step", schedule.count("difficulty_step"));
  if (type == "fixed_root") set("curriculum.root_degree", schedule.count("root_degree"));
}

// Value of `enabled` in an optional section.
std::optional<bool> enabled_in(const std::string& path, const Json& json, const char* section) {
  const auto found = json.find(section);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return JsonSection(path, *found, section).flag("enabled");
}

void refuse_data_efficiency(Draft& draft, const std::string& path, const Json& json) {
  try {
    if (enabled_in(path, json, "data_efficiency") != true) return;
    fail_input(
        "data_efficiency in {} is not supported; use curriculum_learning with curriculum_type "
        "\"seqlen\"",
        path);
  } catch (const Error& error) {
    draft.complaints().add("--deepspeed_config", error.what());
  }
}

}  // namespace

void read_curriculum(Draft& draft, const std::string& path, const Json& json) {
  const bool asked = draft.has(kFlag);
  if (asked && path.empty()) {
    return draft.complaints().add(kFlag,
                                  "requires --deepspeed_config FILE, which gives the lengths");
  }
  refuse_data_efficiency(draft, path, json);
  try {
    const std::optional<bool> enabled = enabled_in(path, json, kSection);
    if (asked && enabled == false) {
      fail_input("contradicts {}.enabled = false in {}", kSection, path);
    }
    if (!asked && enabled != true) return;
    if (!json.contains(kSection)) fail_input("'{}' has no section {}", path, kSection);
    const std::string origin = fmt::format("{} in {}", kSection, path);
    translate(draft, {path, json[kSection], kSection}, origin);
    draft.note(kFlag, fmt::format("[curriculum] is {}", origin));
  } catch (const Error& error) {
    draft.complaints().add(asked ? kFlag : "--deepspeed_config", error.what());
  }
}

}  // namespace trireme::megatron
