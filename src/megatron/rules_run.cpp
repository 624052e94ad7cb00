// What several flags of the run decide together: precision, length, data, checkpoints.
#include <fmt/format.h>

#include <algorithm>

#include "megatron/draft.h"

namespace trireme::megatron {
namespace {

void precision(Draft& draft) {
  for (const char* name : {"bf16", "fp16"}) {
    const std::string flag = std::string("--") + name;
    if (draft.has(flag)) return draft.set_text("run.precision", name, flag);
  }
  draft.set_text("run.precision", "fp32", "neither --fp16 nor --bf16");
}

void recomputation(Draft& draft) {
  const std::string granularity = draft.value("--recompute-granularity");
  std::string origin = "Megatron's default";
  std::string value = "none";
  if (!granularity.empty()) {
    value = granularity;
    origin = "--recompute-granularity";
  }
  for (const auto& [flag, means] :
       {std::pair{"--recompute-activations", "selective"}, {"--checkpoint-activations", "full"}}) {
    if (!draft.has(flag)) continue;
    if (value != "none" && value != means) {
      draft.complaints().add(
          flag, fmt::format("contradicts {}: one means {}, the other {}", origin, means, value));
      continue;
    }
    value = means;
    origin = flag;
  }
  draft.set_text("parallel.recompute", value, origin);
  const bool method = draft.has("--recompute-method");
  if (method && value != "full") {
    draft.complaints().add("--recompute-method",
                           "counts with --recompute-granularity full only, as in Megatron");
  } else if (draft.value("--recompute-method") == "block") {
    draft.set("parallel.recompute_layers",
              fmt::format("{}", draft.integer("--recompute-num-layers", 1)),
              "--recompute-num-layers");
  } else if (draft.integer("--recompute-num-layers", 1) > 1 ||
             draft.integer("--checkpoint-num-layers", 1) > 1) {
    draft.note(
        draft.has("--recompute-num-layers") ? "--recompute-num-layers" : "--checkpoint-num-layers",
        "layers are recomputed one at a time, which takes no more memory");
  }
}

void tokenizer(Draft& draft) {
  const bool bert = draft.program() == Program::bert;
  std::string type = draft.value("--tokenizer-type");
  const std::string origin = type.empty() ? "Megatron's default" : "--tokenizer-type";
  if (type.empty()) type = bert ? "BertWordPieceLowerCase" : "GPT2BPETokenizer";
  if (type == "NullTokenizer") {
    if (!draft.has("--vocab-size"))
      return draft.complaints().add("--tokenizer-type", "NullTokenizer needs --vocab-size");
    // Megatron adds a token that ends documents.
    const std::int64_t size = std::min<std::int64_t>(draft.integer("--vocab-size", 0), 1LL << 30);
    draft.set_text("data.tokenizer", "null", origin);
    draft.set("model.vocab_size", fmt::format("{}", size + 1), "--vocab-size, and one more");
    return;
  }
  if (draft.has("--vocab-size"))
    draft.note("--vocab-size", "the tokenizer knows its size, as in Megatron");
  for (const auto& [theirs, ours] : choices(*find_flag("--tokenizer-type"))) {
    if (theirs == type) draft.set_text("data.tokenizer", ours, origin);
  }
  const auto need = [&](const char* flag) {
    if (!draft.has(flag)) draft.complaints().add(type, fmt::format("needs {}", flag));
  };
  const bool wordpiece = type.starts_with("Bert");
  if (type == "GPT2BPETokenizer") {
    if (draft.has("--tokenizer-model")) return;  // a folder with both files
    need("--merge-file");
  }
  need(wordpiece || type == "GPT2BPETokenizer" ? "--vocab-file" : "--tokenizer-model");
}

// A number above or below what the key takes is refused when the key is read.
void fill_in_the_middle(Draft& draft) {
  struct Part {
    const char* flag;
    const char* key;
    const char* absent;  // TOML
  };
  static constexpr Part parts[] = {
      {"--fim-rate", "data.fim_rate", "0.5"},
      {"--fim-spm-rate", "data.fim_spm_rate", "0.5"},
      {"--fim-prefix-token", "data.fim_prefix_token", "<fim_prefix>"},
      {"--fim-middle-token", "data.fim_middle_token", "<fim_middle>"},
      {"--fim-suffix-token", "data.fim_suffix_token", "<fim_suffix>"},
  };
  for (const Part& part : parts) {
    const bool given = draft.has(part.flag);
    if (!draft.has("--fim-data")) {
      if (given) draft.note(part.flag, "no effect without --fim-data, as in Megatron");
      continue;
    }
    const std::string value = given ? draft.value(part.flag) : part.absent;
    const std::string origin = given ? part.flag : "Megatron's default";
    if (find_flag(part.flag)->kind == Kind::number) {
      draft.set(part.key, value, origin);
    } else {
      draft.set_text(part.key, value, origin);
    }
  }
}

}  // namespace

void translate_run(Draft& draft) {
  precision(draft);
  recomputation(draft);
  tokenizer(draft);
  fill_in_the_middle(draft);
  const bool uneven = draft.program() == Program::bert || draft.has("--eod-mask-loss");
  if (uneven && !draft.has("--calculate-per-token-loss")) {
    draft.note("loss",
               "tokens weigh equally, as with --calculate-per-token-loss; without it Megatron "
               "weighs micro-batches equally, however many tokens count in each");
  }
  if (draft.has("--distributed-timeout-minutes")) {
    const double seconds = 60 * draft.number("--distributed-timeout-minutes", 10);
    draft.set("train.timeout_s", fmt::format("{}", seconds), "--distributed-timeout-minutes");
    draft.note("--distributed-timeout-minutes",
               fmt::format("becomes train.timeout_s = {}", seconds));
  }
  if (draft.has("--tensorboard-dir")) {
    draft.set("log.tensorboard", "true", "--tensorboard-dir");
    draft.note("--tensorboard-dir", "event files are written to run.dir/tensorboard");
  }
}

void translate_checkpoint(Draft& draft) {
  const std::string save = draft.value("--save");
  const std::string load = draft.value("--load");
  if (draft.has("--save")) {
    draft.set_text("run.dir", save, "--save");
  } else {
    draft.note("--save", "is not given; checkpoints and logs go to run.dir = \"runs/default\"");
  }
  if (draft.has("--load") && load != save) draft.set_text("checkpoint.load", load, "--load");
  if (draft.has("--finetune") && draft.has("--load") && load == save) {
    draft.complaints().add("--finetune",
                           "needs a --save that is not --load: a run goes on from its own folder");
  }
  if (draft.has("--pretrained-checkpoint")) {
    if (draft.has("--load") && load != save) {
      draft.contradicts("--load", "--pretrained-checkpoint", "weights come from one place");
      return;
    }
    draft.set_text("checkpoint.load", draft.value("--pretrained-checkpoint"),
                   "--pretrained-checkpoint");
    draft.set("checkpoint.finetune", "true", "--pretrained-checkpoint");
  }
}

}  // namespace trireme::megatron
