// Generates the reference of configuration keys.
#include "config/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/families.h"
#include "config/fields.h"
#include "config/presets.h"

namespace trireme {
namespace {

constexpr const char* kIntroduction =
    R"(# Configuration

A run is described by one TOML file: `trireme train FILE.toml`. Any key can be overridden after it
as `section.key=value`, for example `optimizer.lr=3e-4` or `data.path='["a", "b"]'`; the last value
wins. Numbers of samples may be written as `1e6`. Unknown keys are errors. `trireme config --template`
prints a file with all keys and their defaults.

This page is generated: `TRIREME_UPDATE_DOCS=1` with the tests of `config` regenerates it.

A default of "by family" follows from `model.family`:

)";

constexpr const char* kPresets =
    R"(
## Presets

`model.preset` sets the sizes of a published model; keys of `[model]` in the file or in an override take precedence.
A preset on the command line is rejected if keys of the file would make it a different model.
Presets are architectures only, without dropout, data, batch sizes or learning rates.

)";

// Table of the families' defaults.
std::string families_table() {
  std::string table = fmt::format("| key | {} |\n|---|", fmt::join(family_names(), " | "));
  for (std::size_t i = 0; i < all_families().size(); ++i) table += "---|";
  const auto row = [&](const char* keys, auto&& value) {
    table += fmt::format("\n| {} |", keys);
    for (const Family& family : all_families()) table += fmt::format(" {} |", value(family));
  };
  row("`position`", [](const Family& f) { return f.position; });
  row("`norm`", [](const Family& f) { return f.norm; });
  row("`norm_eps`", [](const Family& f) { return fmt::format("{:g}", f.norm_eps); });
  row("`activation`", [](const Family& f) { return f.activation; });
  row("`bias`, `qkv_bias`", [](const Family& f) { return f.bias; });
  row("`tie_embeddings`", [](const Family& f) { return f.tie_embeddings; });
  return table + "\n";
}

// Table of presets with their main sizes.
std::string presets_table() {
  std::string table =
      "| preset | family | layers | hidden | heads | key/value heads | seq_length | vocabulary | "
      "from |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const Preset& preset : all_presets()) {
    const Config config =
        parse_config(fmt::format("[model]\npreset = \"{}\"\n", preset.name), "preset");
    const ModelConfig& m = config.model;
    table += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} |\n", preset.name,
                         m.family, m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads,
                         m.seq_length, preset.vocabulary, preset.source);
  }
  return table;
}

std::string default_text(const Field& field) {
  static Config defaults;
  return field.follows_family ? "by family" : toml_value(field.slot(defaults));
}

std::string short_type(const FieldSlot& slot) {
  struct Name {
    std::string operator()(const bool*) const { return "boolean"; }
    std::string operator()(const std::int64_t*) const { return "integer"; }
    std::string operator()(const double*) const { return "number"; }
    std::string operator()(const std::string*) const { return "string"; }
    std::string operator()(const ChoiceSlot&) const { return "string"; }
    std::string operator()(const std::vector<std::string>*) const { return "strings"; }
    std::string operator()(const std::vector<std::int64_t>*) const { return "integers"; }
    std::string operator()(const std::vector<double>*) const { return "numbers"; }
  };
  return std::visit(Name{}, slot);
}

// Omits limits that are only sanity bounds.
std::string valid_text(const Field& field) {
  const FieldLimits& limits = field.limits;
  if (!limits.allowed.empty()) return fmt::format("{}", fmt::join(limits.allowed, ", "));
  FieldLimits told = limits;
  if (told.max >= 1e5) told.max = std::numeric_limits<double>::infinity();
  return range_text(told);
}

std::string type_text(const Field& field) {
  static Config config;
  const std::string type = short_type(field.slot(config));
  return field.unit.empty() ? type : fmt::format("{} ({})", type, field.unit);
}

}  // namespace

std::string configuration_markdown() {
  std::string page = kIntroduction + families_table() + kPresets + presets_table();
  std::string section;
  for (const Field& field : all_fields()) {
    if (field.section != section) {
      section = field.section;
      page += fmt::format(
          "\n## [{}]\n\n| key | default | type | valid | meaning |\n|---|---|---|---|---|\n",
          section);
    }
    page +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", field.name,
                    field.follows_family ? "by family" : fmt::format("`{}`", default_text(field)),
                    type_text(field), valid_text(field), field.description);
  }
  return page;
}

namespace {

// Formats constraints after the description: "in samples; one of a, b; at least 1".
std::string constraints(const Field& field) {
  const std::string valid = valid_text(field);
  std::string text;
  if (!field.unit.empty()) text += fmt::format("; in {}", field.unit);
  if (!valid.empty()) text += (field.limits.allowed.empty() ? "; " : "; one of ") + valid;
  return text;
}

// Wraps text at spaces; each line begins with `prefix`.
std::string wrapped(const std::string& text, const std::string& prefix, std::size_t width) {
  std::string result, line = prefix;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (line.size() > prefix.size() && line.size() + 1 + end - at > width) {
      result += line + "\n";
      line = prefix;
    }
    line += (line.size() > prefix.size() ? " " : "") + text.substr(at, end - at);
    at = end + 1;
  }
  return result + line + "\n";
}

}  // namespace

std::string configuration_help() {
  std::string text =
      "Keys of the configuration file, each also an override section.key=value. After each: its "
      "default in brackets.\n";
  std::string section;
  for (const Field& field : all_fields()) {
    if (field.section != section) text += fmt::format("\n[{}]\n", section = field.section);
    text += fmt::format("  {} [{}]\n", field.key(), default_text(field));
    text += wrapped(field.description + constraints(field), "      ", 96);
  }
  return text;
}

std::string configuration_template() {
  std::string text =
      "# A configuration of Trireme: trireme train FILE.toml\n"
      "# Every key with its default; remove the # in front of a key to set it. Keys without # "
      "must\n"
      "# be set. docs/configuration.md describes the same keys.\n";
  std::string section;
  for (const Field& field : all_fields()) {
    if (field.section != section) text += fmt::format("\n[{}]\n", section = field.section);
    text += wrapped(field.description + constraints(field), "# ", 96);
    Config defaults;
    const std::string value = toml_value(field.slot(defaults));
    if (field.key() == "model.preset")
      text += "preset = \"gpt2-124m\"\n";
    else if (field.key() == "train.iters")
      text += "iters = 1000\n";
    else if (field.key() == "optimizer.lr")
      text += "lr = 3e-4\n";
    else
      text += fmt::format("# {} = {}{}\n", field.name, value,
                          field.follows_family ? "  # by family" : "");
  }
  return text;
}

}  // namespace trireme
