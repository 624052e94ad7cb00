// Prints the table of configuration keys for people.
#include "config/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/fields.h"

namespace trireme {
namespace {

constexpr const char* kIntroduction =
    R"(# Configuration

A run is described by one TOML file: `trireme train FILE.toml`. Any key can be overridden behind it
as `section.key=value`, for example `optimizer.lr=3e-4` or `data.path='["a", "b"]'`; the last one
wins. Numbers of samples may be written as `1e6`. Unknown keys are errors.

A default of "by family" follows from `model.family`:

| key | gpt | llama | bert |
|---|---|---|---|
| `position` | learned | rope | learned |
| `norm` | layer_norm | rms_norm | layer_norm |
| `norm_eps` | 1e-5 | 1e-5 | 1e-12 |
| `activation` | gelu_tanh | swiglu | gelu_erf |
| `bias`, `qkv_bias` | true | false | true |
| `tie_embeddings` | true | false | true |

This page is generated: `TRIREME_UPDATE_DOCS=1` with the tests of `config` writes it again.
)";

std::string default_text(const Field& field) {
  static Config defaults;
  return field.by_family ? "by family" : toml_value(field.slot(defaults));
}

std::string short_type(const FieldSlot& slot) {
  struct Name {
    std::string operator()(const bool*) const { return "boolean"; }
    std::string operator()(const std::int64_t*) const { return "integer"; }
    std::string operator()(const double*) const { return "number"; }
    std::string operator()(const std::string*) const { return "string"; }
    std::string operator()(const std::vector<std::string>*) const { return "strings"; }
    std::string operator()(const std::vector<std::int64_t>*) const { return "integers"; }
  };
  return std::visit(Name{}, slot);
}

// Limits that only keep sizes sane are not worth a reader's time.
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
  std::string page = kIntroduction;
  std::string section;
  for (const Field& field : all_fields()) {
    if (field.section != section) {
      section = field.section;
      page += fmt::format(
          "\n## [{}]\n\n| key | default | type | valid | meaning |\n|---|---|---|---|---|\n",
          section);
    }
    page += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.name,
                        field.by_family ? "by family" : fmt::format("`{}`", default_text(field)),
                        type_text(field), valid_text(field), field.description);
  }
  return page;
}

std::string configuration_help() {
  std::size_t width = 0;
  for (const Field& field : all_fields()) width = std::max(width, field.key().size());
  std::string text = "Keys of the configuration file, each also an override section.key=value:\n";
  for (const Field& field : all_fields()) {
    const std::string& unit = field.unit;
    const std::string choice =
        field.limits.allowed.empty()
            ? ""
            : fmt::format("; one of {}", fmt::join(field.limits.allowed, ", "));
    text +=
        fmt::format("  {:<{}}  {}{}{} [{}]\n", field.key(), width, unit.empty() ? "" : unit + " ",
                    field.description, choice, default_text(field));
  }
  return text;
}

}  // namespace trireme
