// The section curriculum_learning, key by key.
#include "megatron/deepspeed_curriculum.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace trireme::megatron {
namespace {

using Json = nlohmann::json;

constexpr const char* kFlag = "--curriculum-learning-legacy";
constexpr const char* kSection = "curriculum_learning";

// One section of the file. Its functions throw errors, which the caller passes on as complaints.
class Section {
 public:
  Section(const std::string& path, const Json& json, std::string name)
      : path_(path), json_(json), name_(std::move(name)) {
    if (!json_.is_object()) {
      fail_input("{} in {} is {}, not an object", name_, path_, json_shown(json_));
    }
  }

  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(key, "not a string");
    return value.get<std::string>();
  }
  std::int64_t count(const char* key) const {
    const Json& value = at(key);
    constexpr std::int64_t largest = std::int64_t{1} << 40;
    if (!value.is_number_integer() || value < 1 || value > largest) {
      refuse(key, "not a whole number from 1 up");
    }
    return value.get<std::int64_t>();
  }
  // Nothing where the key is absent or left to DeepSpeed's caller.
  std::optional<bool> flag(const char* key) const {
    const auto value = json_.find(key);
    if (value == json_.end() || value->is_null() || *value == "auto") return std::nullopt;
    if (!value->is_boolean()) refuse(key, "not true or false");
    return value->get<bool>();
  }
  Section section(const char* key) const { return {path_, at(key), name_ + "." + key}; }

  [[noreturn]] void refuse(const char* key, const std::string& why) const {
    fail_input("{}.{} in {} is {}, {}", name_, key, path_, json_shown(at(key)), why);
  }

 private:
  const Json& at(const char* key) const {
    const auto value = json_.find(key);
    if (value == json_.end()) fail_input("{} in {} lacks '{}'", name_, path_, key);
    return *value;
  }

  const std::string& path_;
  const Json& json_;
  std::string name_;
};

// --seq-length, by either of its names.
std::int64_t sequence_length(const Draft& draft) {
  return draft.integer("--seq-length", draft.integer("--encoder-seq-length", 0));
}

void translate(Draft& draft, const Section& section, const std::string& origin) {
  if (section.text("curriculum_type") != "seqlen") {
    section.refuse("curriculum_type", "but only \"seqlen\" is available: sequences that grow");
  }
  const std::string type = section.text("schedule_type");
  if (type != "fixed_linear" && type != "fixed_root") {
    section.refuse("schedule_type", "but only fixed_linear and fixed_root are available");
  }
  const std::int64_t longest = section.count("max_difficulty");
  const std::int64_t length = sequence_length(draft);
  if (length > 0 && length != longest) {
    section.refuse("max_difficulty",
                   fmt::format("but --seq-length is {}: a run ends with its full length", length));
  }
  const Section schedule = section.section("schedule_config");
  const auto set = [&](const char* key, std::int64_t value) {
    draft.set(key, fmt::format("{}", value), origin);
  };
  draft.set_text("curriculum.schedule", type, origin);
  set("curriculum.min_length", section.count("min_difficulty"));
  set("curriculum.iters", schedule.count("total_curriculum_step"));
  set("curriculum.length_step", schedule.count("difficulty_step"));
  if (type == "fixed_root") set("curriculum.root_degree", schedule.count("root_degree"));
  if (draft.has("--train-tokens")) {
    draft.note("--train-tokens",
               "is divided by the tokens of full sequences; while they grow the run sees fewer");
  }
}

// The value of `enabled` in a section that may be absent.
std::optional<bool> enabled_in(const std::string& path, const Json& json, const char* section) {
  const auto found = json.find(section);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return Section(path, *found, section).flag("enabled");
}

void refuse_data_efficiency(Draft& draft, const std::string& path, const Json& json) {
  try {
    if (enabled_in(path, json, "data_efficiency") != true) return;
    fail_input(
        "data_efficiency in {} is not available; curriculum_learning with curriculum_type "
        "\"seqlen\" is",
        path);
  } catch (const Error& error) {
    draft.complaints().add("--deepspeed_config", error.what());
  }
}

}  // namespace

void read_curriculum(Draft& draft, const std::string& path, const Json& json) {
  const bool asked = draft.has(kFlag);
  if (asked && path.empty()) {
    return draft.complaints().add(kFlag, "needs --deepspeed_config FILE, which gives the lengths");
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
