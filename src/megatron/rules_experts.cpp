// Mixture of experts: Megatron-LM's flags, and where --deepspeed is given Megatron-DeepSpeed's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <vector>

#include "megatron/draft.h"

namespace trireme::megatron {
namespace {

// Reads lists of numbers as Python writes them, joined by "+" and repeated by "*", perhaps in
// brackets: "([0]*3+[1]*58)". Nothing where the text is anything else.
class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::int64_t>> read() {
    std::vector<std::int64_t> pattern;
    const bool good = sum(pattern) && skip_spaces() == text_.size();
    if (!good) return std::nullopt;
    return pattern;
  }

 private:
  static constexpr std::size_t longest = 100000;

  std::size_t skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_;
  }
  bool take(char c) {
    if (skip_spaces() == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool number(std::int64_t& value) {
    skip_spaces();
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    at_ += static_cast<std::size_t>(end - begin);
    return error == std::errc() && value >= 0;
  }
  bool sum(std::vector<std::int64_t>& out) {
    do {
      if (!product(out)) return false;
    } while (take('+'));
    return true;
  }
  bool product(std::vector<std::int64_t>& out) {
    std::vector<std::int64_t> part;
    if (take('(')) {
      if (!sum(part) || !take(')')) return false;
    } else if (!list(part)) {
      return false;
    }
    std::int64_t times = 1;
    if (take('*') && !number(times)) return false;
    if (static_cast<std::size_t>(times) * part.size() > longest) return false;
    for (std::int64_t i = 0; i < times; ++i) out.insert(out.end(), part.begin(), part.end());
    return out.size() <= longest;
  }
  bool list(std::vector<std::int64_t>& out) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!number(out.emplace_back())) return false;
    } while (take(','));
    return take(']');
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

void set_if_given(Draft& draft, const char* key, const char* flag) {
  if (draft.has(flag)) draft.set(key, draft.value(flag), flag);
}

void layers(Draft& draft) {
  const std::string flag = "--moe-layer-freq", text = draft.value(flag);
  if (text.empty()) return;
  std::int64_t interval = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), interval);
  if (error == std::errc() && end == text.data() + text.size())
    return draft.set("moe.layer_interval", text, flag);
  const auto pattern = PatternReader(text).read();
  if (!pattern) {
    return draft.complaints().add(
        flag, fmt::format("{:?} is neither a number nor a list such as \"([0]*3+[1]*58)\"", text));
  }
  std::vector<std::size_t> sparse;
  for (std::size_t layer = 0; layer < pattern->size(); ++layer)
    if ((*pattern)[layer] != 0) sparse.push_back(layer);
  if (sparse.empty()) return draft.complaints().add(flag, "it leaves no layer with experts");
  draft.set("moe.layers", fmt::format("[{}]", fmt::join(sparse, ", ")), flag);
}

void router(Draft& draft) {
  const std::string score = draft.value("--moe-router-score-function");
  if (!score.empty()) draft.set_text("moe.score", score, "--moe-router-score-function");
  if (draft.has("--moe-router-pre-softmax"))
    draft.set("moe.normalize_weights", "false", "--moe-router-pre-softmax");
  set_if_given(draft, "moe.scaling_factor", "--moe-router-topk-scaling-factor");
  set_if_given(draft, "moe.num_groups", "--moe-router-num-groups");
  set_if_given(draft, "moe.top_groups", "--moe-router-group-topk");
  if (draft.has("--moe-router-enable-expert-bias"))
    draft.set("moe.expert_bias", "true", "--moe-router-enable-expert-bias");
  set_if_given(draft, "moe.bias_update_rate", "--moe-router-bias-update-rate");
}

void balance(Draft& draft) {
  const std::string flag = "--moe-router-load-balancing-type";
  const std::string type = draft.has(flag) ? draft.value(flag) : "aux_loss";
  set_if_given(draft, "moe.z_loss_coeff", "--moe-z-loss-coeff");
  if (type == "none") {
    draft.set("moe.aux_loss_coeff", "0.0", flag);
    return;
  }
  draft.set_text("moe.aux_loss", type == "seq_aux_loss" ? "sequence" : "batch",
                 draft.has(flag) ? flag : kDefault);
  set_if_given(draft, "moe.aux_loss_coeff", "--moe-aux-loss-coeff");
}

void capacity(Draft& draft) {
  const std::string flag = "--moe-expert-capacity-factor";
  if (!draft.has(flag)) return;
  draft.set("moe.capacity_factor", draft.value(flag), flag);
  draft.note(flag, "the capacity is that of a sequence here, not of a rank's micro-batch");
  const std::string policy = draft.value("--moe-token-drop-policy");
  draft.set_text("moe.drop_policy", policy == "position" ? "position" : "weight",
                 policy.empty() ? kDefault : "--moe-token-drop-policy");
}

void translate_megatron(Draft& draft) {
  set_if_given(draft, "moe.top_k", "--moe-router-topk");
  set_if_given(draft, "moe.ffn_hidden_size", "--moe-ffn-hidden-size");
  set_if_given(draft, "moe.shared_ffn_hidden_size", "--moe-shared-expert-intermediate-size");
  if (draft.has("--moe-shared-expert-gate"))
    draft.set("moe.shared_gate", "true", "--moe-shared-expert-gate");
  layers(draft);
  router(draft);
  balance(draft);
  capacity(draft);
}

// Layers are counted from 1 there. The first of two choices alone enters its balance loss, and
// which tokens of a full expert are kept is left to chance.
void translate_deepspeed(Draft& draft) {
  const std::int64_t top_k = draft.integer("--topk", 1);
  const std::int64_t interval = draft.integer("--expert-interval", 2);
  const std::string origin = "Megatron-DeepSpeed's default";
  const auto from = [&](const char* flag) { return draft.has(flag) ? flag : origin; };
  draft.set("moe.top_k", fmt::format("{}", top_k), from("--topk"));
  draft.set("moe.first_layer", fmt::format("{}", interval - 1), from("--expert-interval"));
  draft.set("moe.layer_interval", fmt::format("{}", interval), from("--expert-interval"));
  draft.set("moe.normalize_weights", top_k > 1 ? "true" : "false", "DeepSpeed's gate");
  draft.set_text("moe.aux_loss", "batch", "DeepSpeed's gate");
  draft.set("moe.aux_loss_coeff",
            draft.has("--moe-loss-coeff") ? draft.value("--moe-loss-coeff") : "0.1",
            from("--moe-loss-coeff"));
  if (top_k > 1)
    draft.note("--topk",
               "the balance loss counts all choices of a token, not the first alone, and no second "
               "choice is drawn at random");
  if (draft.has("--disable-moe-token-dropping")) return;
  draft.set(
      "moe.capacity_factor",
      draft.has("--moe-train-capacity-factor") ? draft.value("--moe-train-capacity-factor") : "1.0",
      from("--moe-train-capacity-factor"));
  draft.note("--num-experts",
             "the capacity is that of a sequence, a full expert keeps the tokens with the largest "
             "weights, and evaluation drops none; --disable-moe-token-dropping drops none at all");
}

// Flags of the other program, which it would not know.
void note_others(Draft& draft, bool deepspeed) {
  for (const char* flag : {"--topk", "--expert-interval", "--moe-loss-coeff",
                           "--moe-train-capacity-factor", "--disable-moe-token-dropping"}) {
    if (!deepspeed && draft.has(flag)) draft.note(flag, "has an effect only with --deepspeed");
  }
  for (const Flag& other : all_flags()) {
    if (deepspeed && other.name.starts_with("--moe-router-") && draft.has(other.name))
      draft.note(other.name, "has no effect with --deepspeed");
  }
}

}  // namespace

void translate_experts(Draft& draft) {
  const std::string flag = "--num-experts";
  if (draft.integer(flag, 1) <= 1) {
    for (const Flag& other : all_flags()) {
      if (other.keys.starts_with("moe.") && other.name != flag && draft.has(other.name))
        draft.note(other.name, "has an effect only with --num-experts above 1");
    }
    return;
  }
  draft.set("moe.num_experts", draft.value(flag), flag);
  note_others(draft, draft.has("--deepspeed"));
  if (draft.has("--deepspeed")) {
    translate_deepspeed(draft);
  } else {
    translate_megatron(draft);
  }
}

}  // namespace trireme::megatron
