// The table of presets: architectures only, without dropout, data or learning rates.
#include "config/presets.h"

#include <algorithm>

namespace trireme {
namespace {

using Values = std::vector<std::pair<std::string_view, std::string_view>>;

struct Size {
  std::string_view layers, hidden, heads;
};

constexpr std::string_view kGpt2 = "Radford et al. 2019";
constexpr std::string_view kGpt3 =
    "Brown et al. 2020, table 2.1; hidden sizes of Megatron's scripts";
constexpr std::string_view kLlama2 = "Touvron et al. 2023 and the published config.json";
constexpr std::string_view kLlama3 =
    "Grattafiori et al. 2024, table 3, and the published config.json";
constexpr std::string_view kBert = "Devlin et al. 2019";

Values sizes(std::string_view family, const Size& size, std::string_view length) {
  return {{"family", family},
          {"num_layers", size.layers},
          {"hidden_size", size.hidden},
          {"num_heads", size.heads},
          {"seq_length", length}};
}

Preset gpt(std::string_view name, std::string_view source, std::string_view length, Size size) {
  return {name, source, 50257, sizes("\"gpt\"", size, length)};
}

Preset llama(std::string_view name, int generation, Size size, std::string_view kv_heads,
             std::string_view ffn) {
  const bool third = generation == 3;
  Preset preset{name, third ? kLlama3 : kLlama2, third ? 128256 : 32000,
                sizes("\"llama\"", size, third ? "8192" : "4096")};
  preset.values.emplace_back("num_kv_heads", kv_heads);
  preset.values.emplace_back("ffn_hidden_size", ffn);
  if (third) preset.values.emplace_back("rope_base", "500000.0");
  return preset;
}

Preset bert(std::string_view name, Size size) {
  Preset preset{name, kBert, 30522, sizes("\"bert\"", size, "512")};
  preset.values.emplace_back("norm_placement", "\"post\"");
  return preset;
}

std::vector<Preset> build_table() {
  return {
      gpt("gpt2-124m", kGpt2, "1024", {"12", "768", "12"}),
      gpt("gpt2-355m", kGpt2, "1024", {"24", "1024", "16"}),
      gpt("gpt2-774m", kGpt2, "1024", {"36", "1280", "20"}),
      gpt("gpt2-1.5b", kGpt2, "1024", {"48", "1600", "25"}),
      gpt("gpt3-125m", kGpt3, "2048", {"12", "768", "12"}),
      gpt("gpt3-350m", kGpt3, "2048", {"24", "1024", "16"}),
      gpt("gpt3-760m", kGpt3, "2048", {"24", "1536", "16"}),
      gpt("gpt3-1.3b", kGpt3, "2048", {"24", "2048", "16"}),
      gpt("gpt3-2.7b", kGpt3, "2048", {"32", "2560", "32"}),
      gpt("gpt3-6.7b", kGpt3, "2048", {"32", "4096", "32"}),
      gpt("gpt3-13b", kGpt3, "2048", {"40", "5120", "40"}),
      gpt("gpt3-175b", kGpt3, "2048", {"96", "12288", "96"}),
      llama("llama2-7b", 2, {"32", "4096", "32"}, "32", "11008"),
      llama("llama2-13b", 2, {"40", "5120", "40"}, "40", "13824"),
      llama("llama2-70b", 2, {"80", "8192", "64"}, "8", "28672"),
      llama("llama3-8b", 3, {"32", "4096", "32"}, "8", "14336"),
      llama("llama3-70b", 3, {"80", "8192", "64"}, "8", "28672"),
      llama("llama3-405b", 3, {"126", "16384", "128"}, "8", "53248"),
      bert("bert-base", {"12", "768", "12"}),
      bert("bert-large", {"24", "1024", "16"}),
  };
}

}  // namespace

std::span<const Preset> all_presets() {
  static const std::vector<Preset> presets = build_table();
  return presets;
}

const Preset* find_preset(std::string_view name) {
  const auto found = std::find_if(all_presets().begin(), all_presets().end(),
                                  [&](const Preset& preset) { return preset.name == name; });
  return found == all_presets().end() ? nullptr : &*found;
}

}  // namespace trireme
