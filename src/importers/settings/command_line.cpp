// Maps options of torchtitan and `accelerate launch` to keys of their settings files.
#include "importers/settings/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "importers/settings/reader.h"

namespace trireme::settings {
namespace {

using Words = std::vector<std::string>;

// Options of `accelerate launch` without a value.
constexpr std::string_view switches[] = {"quiet",
                                         "module",
                                         "no_python",
                                         "debug",
                                         "cpu",
                                         "multi_gpu",
                                         "tpu",
                                         "enable_cpu_affinity",
                                         "use_deepspeed",
                                         "use_fsdp",
                                         "use_parallelism_config",
                                         "use_megatron_lm",
                                         "same_network",
                                         "tpu_cluster",
                                         "no_tpu_cluster",
                                         "tpu_use_sudo",
                                         "downcast_bf16",
                                         "use_xpu",
                                         "ipex",
                                         "dynamo_use_fullgraph",
                                         "dynamo_use_dynamic",
                                         "dynamo_use_regional_compilation",
                                         "fp8_use_autocast_during_eval"};

// Options of `accelerate launch` that only affect launching.
constexpr std::string_view starting[] = {"quiet",        "module",
                                         "no_python",    "num_cpu_threads_per_process",
                                         "log_dir",      "tee",
                                         "role",         "rdzv_conf",
                                         "max_restarts", "monitor_interval",
                                         "debug"};

// Options of the DeepSpeed section whose names lack its prefix.
constexpr std::string_view of_deepspeed[] = {"zero_stage",
                                             "offload_optimizer_device",
                                             "offload_param_device",
                                             "offload_optimizer_nvme_path",
                                             "offload_param_nvme_path",
                                             "gradient_accumulation_steps",
                                             "gradient_clipping",
                                             "zero3_init_flag",
                                             "zero3_save_16bit_model"};

// Switches that select the distribution type.
constexpr std::pair<std::string_view, const char*> kinds[] = {{"use_deepspeed", "DEEPSPEED"},
                                                              {"use_fsdp", "FSDP"},
                                                              {"use_megatron_lm", "MEGATRON_LM"},
                                                              {"multi_gpu", "MULTI_GPU"}};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string base_name(const std::string& word) {
  return word.substr(word.rfind('/') + 1);
}

// Name of an option: "fsdp_version" for "--Fsdp-version=2"; "" if the word is not an option.
std::string name_of_option(const std::string& word) {
  if (word == "-m") return "module";
  if (word == "-q") return "quiet";
  if (!word.starts_with("--")) return "";
  std::string name = word.substr(2, word.find('=') - 2);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::optional<std::string> value_of_option(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals == word.npos ? std::nullopt : std::optional(word.substr(equals + 1));
}

// Infers the type of a word that is not known to be text.
Json value_of_word(const std::string& word) {
  std::int64_t count = 0;
  double number = 0;
  const char *begin = word.data(), *end = begin + word.size();
  if (std::from_chars(begin, end, count).ptr == end && !word.empty()) return count;
  if (std::from_chars(begin, end, number).ptr == end && !word.empty()) return number;
  if (word == "true" || word == "True") return true;
  if (word == "false" || word == "False") return false;
  return word;
}

// Finds a key ("training.steps") in a file; creates missing tables.
Json& place_of(Json& json, const std::string& key) {
  const std::size_t dot = key.find('.');
  Json& value = json[key.substr(0, dot)];
  if (dot == key.npos) return value;
  if (!value.is_object()) value = Json::object();
  return place_of(value, key.substr(dot + 1));
}

void put(Json& json, const std::string& key, const Words& values) {
  Json& place = place_of(json, key);
  const bool is_text = place.is_string();
  if (values.size() != 1) {
    place = values;
  } else if (is_text) {
    place = values[0];
  } else {
    place = value_of_word(values[0]);
  }
}

// Applies torchtitan's options: "--training.steps 10", "--comm.trace_buf_size=0",
// "--compile.enable", "--compile.no-enable", "--model.converters float8 mx".
void override_torchtitan(Json& json, const Words& words) {
  for (std::size_t i = 0; i < words.size();) {
    std::string key = name_of_option(words[i]);
    Words values;
    if (const auto value = value_of_option(words[i])) values.push_back(*value);
    for (++i; i < words.size() && !words[i].starts_with("--"); ++i) values.push_back(words[i]);
    const std::size_t no = key.rfind(".no_");
    if (!values.empty()) {
      put(json, key, values);
    } else if (no != key.npos && key.find('.', no + 1) == key.npos) {
      place_of(json, key.erase(no + 1, 3)) = false;
    } else {
      place_of(json, key) = true;
    }
  }
}

// Key in accelerate's file that corresponds to an option.
std::string accelerate_key(const std::string& name) {
  if (name == "cpu") return "use_cpu";
  for (const auto& [beginning, section] : {std::pair{"fsdp_", "fsdp_config."},
                                           {"megatron_lm_", "megatron_lm_config."},
                                           {"parallelism_config_", "parallelism_config."},
                                           {"deepspeed_", "deepspeed_config."},
                                           {"dynamo_", "dynamo_config."}})
    if (name.starts_with(beginning)) return section + name;
  if (name.starts_with("fp8_")) return "fp8_config." + name.substr(4);
  if (is_among(name, of_deepspeed)) return "deepspeed_config." + name;
  return name;
}

void override_accelerate(Json& json, const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = name_of_option(words[i]);
    const auto kind = std::ranges::find(kinds, std::string_view(name),
                                        &std::pair<std::string_view, const char*>::first);
    auto value = value_of_option(words[i]);
    const bool is_switch = is_among(name, switches);
    if (!is_switch && !value && i + 1 < words.size()) value = words[++i];
    if (is_among(name, starting)) continue;
    if (kind != std::end(kinds)) {
      json["distributed_type"] = kind->second;
    } else if (is_switch && !value) {
      place_of(json, accelerate_key(name)) = true;
    } else {
      put(json, accelerate_key(name), {value.value_or("")});
    }
  }
}

// Parses the options of `accelerate launch` itself, up to the program.
std::optional<SettingsLaunch> accelerate_launch(const Words& words) {
  const auto program = std::ranges::find_if(
      words, [](const std::string& word) { return base_name(word) == "accelerate"; });
  if (words.end() - program < 2 || program[1] != "launch") return std::nullopt;
  SettingsLaunch launch{.system = System::accelerate, .option = "", .file = "", .options = {}};
  for (auto word = program + 2; word != words.end(); ++word) {
    const std::string name = name_of_option(*word);
    if (name.empty()) break;
    const bool has_word = !is_among(name, switches) && word->find('=') == word->npos;
    if (has_word && word + 1 == words.end()) break;
    if (name == "config_file") {
      launch.option = word->substr(0, word->find('='));
      launch.file = has_word ? *(word + 1) : *value_of_option(*word);
    } else {
      launch.options.push_back(*word);
      if (has_word) launch.options.push_back(*(word + 1));
    }
    word += has_word ? 1 : 0;
  }
  return launch.file.empty() ? std::nullopt : std::optional(launch);
}

std::optional<SettingsLaunch> torchtitan_launch(const Words& words) {
  const auto first = std::ranges::find_if(
      words, [](const std::string& word) { return name_of_option(word) == "job.config_file"; });
  if (first == words.end()) return std::nullopt;
  // The program's options follow its name; launcher options contain no dot.
  SettingsLaunch launch{.system = System::torchtitan, .option = "", .file = "", .options = {}};
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string name = name_of_option(*word);
    if (name == "job.config_file") {
      launch.option = word->substr(0, word->find('='));
      const auto value = value_of_option(*word);
      if (!value && word + 1 == words.end()) return std::nullopt;
      launch.file = value ? *value : *++word;
    } else if (name.find('.') != name.npos || !launch.options.empty() || !launch.file.empty()) {
      launch.options.push_back(*word);
    }
  }
  return launch;
}

}  // namespace

std::optional<SettingsLaunch> find_settings_launch(const Words& words) {
  auto launch = accelerate_launch(words);
  return launch ? launch : torchtitan_launch(words);
}

SettingsFile read_settings_launch(const SettingsLaunch& launch, const std::string& text,
                                  const fs::path& path, std::int64_t ranks) {
  Parsed parsed = parse_settings(text, path);
  if (!parsed.json.is_object()) fail_input("'{}' is not a table of settings", path.string());
  if (launch.system == System::torchtitan) {
    override_torchtitan(parsed.json, launch.options);
  } else {
    override_accelerate(parsed.json, launch.options);
  }
  SettingsFile file = read_parsed_settings(parsed, path, ranks);
  if (file.system != launch.system)
    fail_input("{} '{}' contains settings of {}, not of {}", launch.option, launch.file,
               name_of(file.system), name_of(launch.system));
  return file;
}

}  // namespace trireme::settings
