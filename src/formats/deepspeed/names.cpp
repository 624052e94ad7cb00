// Distinguishes blocks, embedding, norm and head of a pipeline.
#include "formats/deepspeed/names.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

namespace trireme {
namespace {

constexpr std::string_view tied = "tied_modules.";

// Splits "3.mlp.dense_h_to_4h.weight" into 3 and "mlp.dense_h_to_4h.weight"; -1 without a number.
std::pair<int, std::string_view> numbered(std::string_view name) {
  int number = -1;
  const char* const end = name.data() + name.size();
  const auto [next, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || next == end || *next != '.' || number < 0) return {-1, name};
  return {number, std::string_view(next + 1, end)};
}

}  // namespace

DeepspeedNames::DeepspeedNames(const std::vector<std::string>& theirs) {
  std::map<int, std::set<std::string_view>> modules;
  std::int64_t unnumbered = 0;
  for (const std::string& name : theirs) {
    const auto [number, rest] = numbered(name);
    if (number >= 0) modules[number].insert(rest);
    if (number < 0 && !name.starts_with(tied))
      unnumbered = std::max(unnumbered, megatron_name(name).layer + 1);
  }
  for (const auto& [number, names] : modules) {
    if (names.contains("word_embeddings.weight")) {
      prefixes_[number] = "embedding.";
    } else if (names.contains("lm_head.weight")) {
      prefixes_[number] = "output_layer.";
    } else if (names.begin()->find('.') == std::string_view::npos) {
      prefixes_[number] = "encoder.final_layernorm.";
    } else {
      prefixes_[number] = fmt::format("encoder.layers.{}.", layers_++);
    }
  }
  layers_ += unnumbered;
}

MegatronName DeepspeedNames::ours(std::string_view theirs) const {
  if (theirs.starts_with(tied)) {
    const std::size_t dot = theirs.find('.', tied.size());
    if (dot == theirs.npos) return {};
    return megatron_name(fmt::format("embedding.{}", theirs.substr(dot + 1)));
  }
  auto [number, rest] = numbered(theirs);
  if (number < 0) return megatron_name(theirs);
  const auto prefix = prefixes_.find(number);
  if (prefix == prefixes_.end()) return {};
  if (rest.starts_with("lm_head.")) rest.remove_prefix(8);
  return megatron_name(prefix->second + std::string(rest));
}

std::vector<int> numbers_in(std::string_view name, std::string_view pattern) {
  std::vector<int> numbers;
  const char* at = name.data();
  const char* const end = at + name.size();
  for (const char expected : pattern) {
    if (expected != '#') {
      if (at == end || *at++ != expected) return {};
      continue;
    }
    int number = -1;
    const auto [next, error] = std::from_chars(at, end, number);
    constexpr int most = 1'000'000;
    if (error != std::errc() || number < 0 || number > most) return {};
    numbers.push_back(number);
    at = next;
  }
  return at == end ? numbers : std::vector<int>();
}

}  // namespace trireme
