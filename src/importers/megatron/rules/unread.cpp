// Notes flags without effect because another flag is missing.
#include <fmt/format.h>

#include <algorithm>

#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

struct Needs {
  std::string_view flag, other;
};

constexpr std::string_view kYarn =
    "--position-embedding-type yarn and a --rotary-scaling-factor above 1";

constexpr std::string_view kMamba = "'M' in --hybrid-layer-pattern";

// The flag that each flag requires, as in Megatron.
constexpr Needs needs[] = {
    {"--window-attn-skip-freq", "--window-size"},
    {"--null-tokenizer-eod-id", "--tokenizer-type NullTokenizer"},
    {"--moe-token-drop-policy", "--moe-expert-capacity-factor"},
    {"--enable-expert-tensor-parallelism", "--tensor-model-parallel-size above 1"},
    {"--lion-beta1", "--optimizer lion"},
    {"--lion-beta2", "--optimizer lion"},
    {"--muon-momentum", "--optimizer muon"},
    {"--muon-num-ns-steps", "--optimizer muon"},
    {"--muon-extra-scale-factor", "--optimizer muon"},
    {"--muon-scale-mode", "--optimizer muon"},
    {"--muon-coefficient-type", "--optimizer muon"},
    {"--muon-nesterov", "--optimizer muon"},
    {"--muon-use-nesterov", "--optimizer muon"},
    {"--qk-clip-threshold", "--qk-clip"},
    {"--qk-clip-alpha", "--qk-clip"},
    {"--mup-base-hidden-size", "--use-mup"},
    {"--mup-embedding-mult", "--use-mup"},
    {"--mup-output-mult", "--use-mup"},
    {"--mup-base-head-dim", "--use-mup"},
    {"--mup-attn-scale-power", "--use-mup"},
    {"--tokenizer-name-or-path", "--tokenizer-type HuggingFaceTokenizer"},
    {"--use-custom-fsdp", "--data-parallel-sharding-strategy"},
    {"--use-megatron-fsdp", "--data-parallel-sharding-strategy"},
    {"--yarn-original-max-position-embeddings", kYarn},
    {"--yarn-beta-fast", kYarn},
    {"--yarn-beta-slow", kYarn},
    {"--yarn-correction-range-round-to-int", kYarn},
    {"--no-yarn-correction-range-round-to-int", kYarn},
    {"--mamba-state-dim", kMamba},
    {"--mamba-head-dim", kMamba},
    {"--mamba-num-groups", kMamba},
    {"--mamba-num-heads", kMamba},
    {"--mscale", "--rope-type yarn and a --rotary-scaling-factor above 1"},
    {"--mscale-all-dim", "a --rotary-scaling-factor above 1"},
    {"--rotary-scaling-factor", "a value above 1 and --rope-type yarn or --mscale-all-dim"},
    {"--rope-type", "a --rotary-scaling-factor above 1"},
    {"--num-layers-at-start-in-bf16", "--first-last-layers-bf16"},
    {"--num-layers-at-end-in-bf16", "--first-last-layers-bf16"},
    {"--profile-step-start", "--profile"},
    {"--profile-step-end", "--profile"},
};

bool continues_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool mentions_flag(const std::string& text, const std::string& flag) {
  for (std::size_t at = text.find(flag); at != std::string::npos; at = text.find(flag, at + 1)) {
    const std::size_t end = at + flag.size();
    if (end == text.size() || !continues_name(text[end])) return true;
  }
  return false;
}

bool is_named(const std::vector<Note>& notes, const std::string& flag) {
  return std::ranges::any_of(
      notes, [&](const Note& note) { return note.flag == flag || mentions_flag(note.text, flag); });
}

}  // namespace

void note_unread(Draft& draft, const Translation& done) {
  for (const auto& [name, other] : needs) {
    const std::string flag(name);
    const bool read = std::ranges::any_of(
        done.settings, [&](const Setting& setting) { return mentions_flag(setting.origin, flag); });
    if (draft.has(flag) && !read && !is_named(done.notes, flag) && !is_named(done.lost, flag))
      draft.note(flag, fmt::format("no effect without {}, as in Megatron", other));
  }
}

}  // namespace trireme::megatron
