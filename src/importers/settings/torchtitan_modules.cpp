// Modules of a model that torchtitan printed, and how their weights start.
#include "importers/settings/torchtitan_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <optional>

namespace trireme::settings {
namespace {

// The standard deviation in "functools.partial(<function normal_ at 0x7f>, std=0.02)".
std::optional<double> deviation_of(const Reader& reader, const std::string& weight) {
  const Json* json = reader.json_at(weight);
  if (!json || !json->is_string()) return std::nullopt;
  const std::string text = json->get<std::string>();
  const std::size_t at = text.find("std=");
  double value = 0;
  if (at == text.npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data() + at + 4, end, value).ec != std::errc()) return std::nullopt;
  return value;
}

struct Start {
  std::string module;
  double ours;
};

}  // namespace

void read_module(Reader& reader, const std::string& key) {
  reader.consume_section(key + ".param_init");
  reader.consume(key + ".sharding_config");
}

bool has_module(Reader& reader, const std::string& key) {
  if (reader.has(key)) return true;
  reader.consume(key);
  return false;
}

std::int64_t module_size(Reader& reader, const std::string& key) {
  const auto value = reader.count(key);
  if (!value) reader.refuse(key, "is missing, but torchtitan prints it");
  constexpr std::int64_t largest = 1 << 30;
  if (*value < 1 || *value > largest) reader.refuse(key, fmt::format("is {}, not a size", *value));
  return *value;
}

void expect_size(Reader& reader, const std::string& key, std::int64_t expected) {
  const std::int64_t value = module_size(reader, key);
  if (value != expected)
    reader.refuse(key,
                  fmt::format("is {}, but the rest of the model requires {}", value, expected));
}

bool read_linear(Reader& reader, const std::string& key, std::int64_t in, std::int64_t out) {
  read_module(reader, key);
  expect_size(reader, key + ".in_features", in);
  expect_size(reader, key + ".out_features", out);
  return reader.flag(key + ".bias").value_or(false);
}

void read_norm(Reader& reader, const std::string& key, std::int64_t width,
               const char* eps_setting) {
  read_module(reader, key);
  expect_size(reader, key + ".normalized_shape", width);
  if (!reader.flag(key + ".elementwise_affine").value_or(true))
    reader.lose(key + ".elementwise_affine", "is false: norms of Trireme have weights");
  const auto eps = reader.number(key + ".eps");
  if (!eps) return reader.lose(key + ".eps", "is not set, so that it depends on the data type");
  reader.set(eps_setting, *eps, key + ".eps");
}

void note_initial_weights(Reader& reader, std::int64_t layers) {
  constexpr double usual = 0.02;
  const double outputs = usual / std::sqrt(2.0 * static_cast<double>(layers));
  const std::string last = fmt::format("layers.{}.attention.wo", layers - 1);
  std::vector<std::string> others;
  for (const auto& [module, ours] :
       {Start{"tok_embeddings", usual}, Start{"lm_head", usual},
        Start{"layers.0.attention.wo", outputs}, Start{last, outputs}}) {
    const auto theirs =
        deviation_of(reader, fmt::format("{}.{}.param_init.weight", printed_model, module));
    if (theirs && std::abs(*theirs - ours) > 1e-6 * ours)
      others.push_back(fmt::format("{} {:.4g} instead of {:.4g}", module, *theirs, ours));
  }
  if (others.empty())
    return reader.note(
        "weights",
        "are initialized with other random numbers than in torchtitan, and perhaps from "
        "other distributions: only the standard deviations of the embedding, the "
        "head and attention.wo were compared; a checkpoint of torchtitan's step 0 "
        "gives the same start");
  reader.note("weights",
              fmt::format("are initialized otherwise than in torchtitan, where standard deviations "
                          "are: {}; a checkpoint of torchtitan's step 0 gives the same start",
                          fmt::join(others, ", ")));
}

bool is_gpt_oss(const Reader& reader) {
  return reader.says("model_spec.name", "gpt_oss");
}

}  // namespace trireme::settings
