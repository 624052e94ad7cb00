// Translates --hybrid-layer-pattern of pretrain_hybrid.py if its layers are pairs of attention and
// an MLP or experts, which are the layers of pretrain_gpt.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/printable.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

constexpr char attention_symbol = '*', mlp_symbol = '-', experts_symbol = 'E', stage_end = '|',
               prediction = '/';
constexpr std::size_t longest_pattern = 100'000;

// The unsupported feature that a symbol requests; "" for other symbols.
const char* unavailable(char symbol) {
  switch (symbol) {
    case 'M':
      return "layers of Mamba";
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
  std::vector<bool> experts;              // per pair: whether it has experts
  std::vector<std::int64_t> per_segment;  // pairs between two '|'
};

// Parses the pairs. Returns an error message, or "".
std::string read_pairs(const std::string& pattern, Layers& layers) {
  layers.per_segment.push_back(0);
  bool inside = false;  // a pair has its attention, and waits for the rest
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char symbol = pattern[at];
    if (const std::string what = unavailable(symbol); !what.empty())
      return fmt::format("its symbol '{}' asks for {}, which the import does not translate", symbol,
                         what);
    const bool rest = symbol == mlp_symbol || symbol == experts_symbol;
    if (symbol != attention_symbol && symbol != stage_end && !rest)
      return fmt::format("'{}' is not a symbol of a layer", printable(std::string(1, symbol)));
    if (inside != rest) {
      return fmt::format(
          "after {} symbols comes '{}': attention ('*') is always followed by an "
          "MLP ('-') or experts ('E') here",
          at, symbol);
    }
    if (symbol == stage_end) {
      layers.per_segment.push_back(0);
    } else if (rest) {
      layers.experts.push_back(symbol == experts_symbol);
      ++layers.per_segment.back();
    }
    inside = symbol == attention_symbol;
  }
  if (inside) return "its last layer is attention without an MLP or experts";
  return layers.experts.empty() ? "it has no layers" : "";
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
    if (segments.size() > 1 || given % 2 != 0) {
      draft.complaints().add(
          other, fmt::format("attention and what follows it are one layer here: mark the stages "
                             "in {} by '|'",
                             flag));
      draft.line().flags.erase(other);
    } else {
      draft.give(other, fmt::format("{}", given / 2));
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
  const std::string pattern = draft.value(flag);
  Layers layers;
  const std::string wrong =
      pattern.size() > longest_pattern
          ? fmt::format("the pattern has more than {} symbols", longest_pattern)
          : read_pairs(pattern, layers);
  const std::string number = "--num-layers";
  if (!wrong.empty()) {
    draft.complaints().add(flag, wrong);
    if (!draft.has(number)) draft.give(number, "1");  // avoids a second complaint
    return;
  }
  if (draft.has(number) && draft.integer(number, 0) != 2 * std::ssize(layers.experts))
    draft.note(number, fmt::format("{} has no effect: {} sets the number of layers",
                                   draft.value(number), flag));
  draft.give(number, fmt::format("{}", layers.experts.size()));
  give_experts(draft, flag, layers);
  give_stages(draft, flag, layers);
  refuse_what_hybrids_do_not_read(draft, flag);
  draft.note(
      flag,
      fmt::format(
          "its {} layers are {} in Trireme, where attention and the MLP or experts after it form "
          "one layer",
          2 * layers.experts.size(), layers.experts.size()));
}

}  // namespace trireme::megatron
