// Translates --hybrid-layer-pattern of pretrain_hybrid.py: pairs of attention and an MLP or experts
// are the layers of pretrain_gpt.py; otherwise each symbol is a layer of its own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/printable.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

constexpr char attention_symbol = '*', mamba_symbol = 'M', mlp_symbol = '-', experts_symbol = 'E',
               stage_end = '|', prediction = '/';
constexpr std::size_t longest_pattern = 100'000;

// The unsupported feature that a symbol requests; "" for other symbols.
const char* unavailable(char symbol) {
  switch (symbol) {
    case 'G':
      return "gated delta nets";
    case 'D':
      return "sparse attention";
    case '+':
      return "latent attention without its two norms";
    case prediction:
      return "prediction of several tokens";
    default:
      return "";
  }
}

struct Layers {
  std::int64_t symbols = 1;                            // of each layer: 2 for pairs
  std::vector<bool> experts;                           // per layer: whether it has experts
  std::vector<std::int64_t> per_segment{0};            // layers between two '|'
  std::vector<std::int64_t> mamba, without_attention;  // layers of one symbol

  std::int64_t count() const { return std::ssize(experts); }
};

bool is_mlp(char symbol) {
  return symbol == mlp_symbol || symbol == experts_symbol;
}

// Returns an error message, or "".
std::string wrong_symbols(const std::string& pattern) {
  if (pattern.size() > longest_pattern)
    return fmt::format("the pattern has more than {} symbols", longest_pattern);
  for (const char symbol : pattern) {
    if (const std::string what = unavailable(symbol); !what.empty())
      return fmt::format("its symbol '{}' asks for {}, which the import does not translate", symbol,
                         what);
    if (std::string_view("*M-E|").find(symbol) == std::string_view::npos)
      return fmt::format("'{}' is not a symbol of a layer", printable(std::string(1, symbol)));
  }
  if (pattern.find_first_not_of(stage_end) == pattern.npos) return "it has no layers";
  if (pattern.find_first_of("-E") == pattern.npos)
    return "it has no MLP ('-') and no experts ('E'), and model.mlp_layers cannot be empty";
  return "";
}

bool has_pairs_only(const std::string& pattern) {
  bool inside = false;  // a pair has its attention, and waits for the rest
  for (const char symbol : pattern) {
    if (symbol == mamba_symbol || inside != is_mlp(symbol)) return false;
    inside = symbol == attention_symbol;
  }
  return !inside;
}

Layers read_layers(const std::string& pattern) {
  Layers layers;
  layers.symbols = has_pairs_only(pattern) ? 2 : 1;
  for (const char symbol : pattern) {
    if (symbol == stage_end) layers.per_segment.push_back(0);
    if (symbol == stage_end || (layers.symbols == 2 && symbol == attention_symbol)) continue;
    if (symbol == mamba_symbol) layers.mamba.push_back(layers.count());
    if (layers.symbols == 1 && is_mlp(symbol)) layers.without_attention.push_back(layers.count());
    layers.experts.push_back(symbol == experts_symbol);
    ++layers.per_segment.back();
  }
  return layers;
}

void give_experts(Draft& draft, const std::string& flag, const Layers& layers) {
  const std::string frequency = "--moe-layer-freq", number = "--num-experts";
  const auto count = std::ranges::count(layers.experts, true);
  if (draft.has(frequency)) draft.note(frequency, fmt::format("no effect with {}", flag));
  draft.line().flags.erase(frequency);
  if (count > 0 && draft.integer(number, 1) <= 1) {
    return draft.complaints().add(flag, fmt::format("its experts ('E') need {}", number));
  }
  if (count == 0 && draft.has(number)) {
    draft.note(number, fmt::format("no effect: {} has no experts ('E')", flag));
    draft.line().flags.erase(number);
  } else if (count < std::ssize(layers.experts)) {
    std::vector<int> marks(layers.experts.begin(), layers.experts.end());
    if (count > 0) draft.give(frequency, fmt::format("[{}]", fmt::join(marks, ",")));
  }
}

// Each part between two '|' is a pipeline stage; ranks take turns if there are more parts than
// ranks.
void give_stages(Draft& draft, const std::string& flag, const Layers& layers) {
  const std::vector<std::int64_t>& segments = layers.per_segment;
  const std::int64_t stages = draft.integer("--pipeline-model-parallel-size", 1);
  for (const char* other :
       {"--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank"}) {
    draft.contradicts(flag, other, "the pattern says what a stage holds");
  }
  for (const char* other :
       {"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"}) {
    if (!draft.has(other)) continue;
    const std::int64_t given = draft.integer(other, 0);
    if (segments.size() > 1 || given % layers.symbols != 0) {
      draft.complaints().add(
          other,
          fmt::format("does not count the layers of {}: mark the stages in it by '|'", flag));
      draft.line().flags.erase(other);
    } else {
      draft.give(other, fmt::format("{}", given / layers.symbols));
    }
  }
  if (segments.size() == 1 || stages < 1) return;
  const auto count = std::ssize(segments);
  const bool even =
      std::ranges::adjacent_find(segments, std::ranges::not_equal_to()) == segments.end();
  if (count % stages != 0 || (count > stages && (!even || stages == 1))) {
    return draft.complaints().add(
        flag,
        fmt::format(
            "its {} parts between '|' do not make the stages of --pipeline-model-parallel-size {}: "
            "expected one segment per stage, or the same multiple of equal ones",
            count, stages));
  }
  if (count > stages) {
    draft.give("--num-virtual-stages-per-pipeline-rank", fmt::format("{}", count / stages));
  } else if (!even) {
    draft.set("parallel.stage_layers", fmt::format("[{}]", fmt::join(segments, ", ")), flag);
  }
}

// Refuses flags that pretrain_hybrid.py does not use, or that count its layers differently.
void refuse_what_hybrids_do_not_read(Draft& draft, const std::string& flag) {
  for (const char* other : {"--qk-layernorm", "--multi-latent-attention", "--no-rope-freq",
                            "--use-rope-scaling", "--rotary-seq-len-interpolation-factor",
                            "--window-attn-skip-freq", "--first-last-layers-bf16"}) {
    if (!draft.has(other)) continue;
    draft.complaints().add(
        other, fmt::format("with {} Megatron ignores it, or counts layers differently", flag));
  }
}

std::string list_of(const std::vector<std::int64_t>& layers) {
  return fmt::format("[{}]", fmt::join(layers, ", "));
}

// Refuses what layers of Mamba compute otherwise in Trireme.
void refuse_beside_mamba(Draft& draft) {
  constexpr std::pair<const char*, const char*> others[] = {
      {"--reset-attention-mask", "its states continue across documents in Megatron"},
      {"--dataloader-inter-document-masking", "its states are separated by the dataset's index"},
      {"--fp8-format", "its projection is one matrix in Megatron, with scales of its own"},
      {"--use-mup", "its parts have no widths of their own here"}};
  for (const auto& [flag, why] : others)
    if (draft.has(flag))
      draft.complaints().add(flag, fmt::format("not with layers of Mamba ('M'): {}", why));
  if (draft.value("--optimizer").find("muon") != std::string::npos)
    draft.complaints().add("--optimizer",
                           "muon not with layers of Mamba ('M'): their projection is one matrix in "
                           "Megatron, and three here");
  for (const char* flag : {"--norm-epsilon", "--layernorm-epsilon"})
    if (draft.number(flag, 1e-5) != 1e-5)
      draft.complaints().add(flag, fmt::format("{} with layers of Mamba ('M'), whose own norm has "
                                               "1e-5 in Megatron and model.norm_eps here",
                                               draft.value(flag)));
}

void give_mamba(Draft& draft, const std::string& flag, const Layers& layers) {
  const bool loads = draft.has("--pretrained-checkpoint") ||
                     (draft.has("--load") && draft.value("--load") != draft.value("--save"));
  if (!loads)
    draft.complaints().add(
        flag,
        "its symbol 'M' asks for layers of Mamba, whose dt_bias, A and convolutions start from "
        "other distributions in Megatron: give --load with a converted checkpoint");
  refuse_beside_mamba(draft);
  const std::string width_flag = "--mamba-head-dim", heads_flag = "--mamba-num-heads";
  const std::int64_t width = draft.integer(width_flag, 64);
  if (width < 1) return draft.complaints().add(width_flag, fmt::format("{} is no width", width));
  const std::int64_t inner = 2 * draft.integer("--hidden-size", 0);
  const std::int64_t heads = draft.integer(heads_flag, inner / width);
  if (heads < 1 || (!draft.has(heads_flag) && inner % width != 0))
    return draft.complaints().add(
        heads_flag, fmt::format("is needed: twice --hidden-size, {}, is not a positive multiple of "
                                "{} = {}",
                                inner, width_flag, width));
  const auto set = [&](const char* key, std::int64_t value, const std::string& origin) {
    draft.set(key, fmt::format("{}", value), draft.has(origin) ? origin : kDefault);
  };
  draft.set("model.linear_layers", list_of(layers.mamba), flag);
  draft.set_text("model.linear_kind", "mamba2", flag);
  draft.set("model.linear_conv_bias", "true", kDefault);
  draft.set("model.linear_conv_width", "4", kDefault);
  set("model.linear_key_heads", draft.integer("--mamba-num-groups", 8), "--mamba-num-groups");
  set("model.linear_key_head_dim", draft.integer("--mamba-state-dim", 128), "--mamba-state-dim");
  set("model.linear_value_heads", heads, heads_flag);
  set("model.linear_value_head_dim", width, width_flag);
}

void give_parts(Draft& draft, const std::string& flag, const Layers& layers) {
  draft.set("model.mlp_layers", list_of(layers.without_attention), flag);
  if (!layers.mamba.empty()) give_mamba(draft, flag, layers);
}

}  // namespace

void read_hybrid_pattern(Draft& draft) {
  const std::string newer = "--hybrid-layer-pattern", older = "--hybrid-override-pattern",
                    alone = "--is-hybrid-model";
  draft.contradicts(newer, older, "both set the same pattern");
  const std::string flag = draft.has(older) ? older : newer;
  if (!draft.has(flag)) {
    if (draft.has(alone)) {
      draft.complaints().add(
          alone, fmt::format("without {} it only changes the initialization of weights: remove it",
                             newer));
    }
    return;
  }
  if (draft.has(alone)) draft.note(alone, fmt::format("{} sets it", flag));
  const std::string pattern = draft.value(flag), number = "--num-layers";
  if (const std::string wrong = wrong_symbols(pattern); !wrong.empty()) {
    draft.complaints().add(flag, wrong);
    if (!draft.has(number)) draft.give(number, "1");  // avoids a second complaint
    return;
  }
  const Layers layers = read_layers(pattern);
  if (draft.has(number) && draft.integer(number, 0) != layers.symbols * layers.count())
    draft.note(number, fmt::format("{} has no effect: {} sets the number of layers",
                                   draft.value(number), flag));
  draft.give(number, fmt::format("{}", layers.count()));
  give_experts(draft, flag, layers);
  give_stages(draft, flag, layers);
  refuse_what_hybrids_do_not_read(draft, flag);
  if (layers.symbols == 1) return give_parts(draft, flag, layers);
  draft.note(
      flag,
      fmt::format(
          "its {} layers are {} in Trireme, where attention and the MLP or experts after it form "
          "one layer",
          2 * layers.count(), layers.count()));
}

}  // namespace trireme::megatron
