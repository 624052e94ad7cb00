// Translates run keys that depend on several flags: precision, length, data, checkpoints.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "checkpoint/foreign.h"
#include "importers/megatron/draft.h"

namespace trireme::megatron {
namespace {

void precision(Draft& draft) {
  for (const char* name : {"bf16", "fp16"}) {
    const std::string flag = std::string("--") + name;
    if (draft.has(flag)) return draft.set_text("run.precision", name, flag);
  }
  draft.set_text("run.precision", "fp32", "neither --fp16 nor --bf16");
}

bool recomputes_in_full(const Draft& draft) {
  return draft.has("--checkpoint-activations") || draft.value("--recompute-granularity") == "full";
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
          flag, fmt::format("contradicts {}: one implies {}, the other {}", origin, means, value));
      continue;
    }
    value = means;
    origin = flag;
  }
  draft.set_text("parallel.recompute", value, origin);
  const bool method = draft.has("--recompute-method");
  if (method && value != "full") {
    draft.complaints().add("--recompute-method",
                           "has an effect only with --recompute-granularity full, as in Megatron");
  } else if (draft.value("--recompute-method") == "block") {
    draft.set("parallel.recompute_layers",
              fmt::format("{}", draft.integer("--recompute-num-layers", 1)),
              "--recompute-num-layers");
  } else if (draft.integer("--recompute-num-layers", 1) > 1 ||
             draft.integer("--checkpoint-num-layers", 1) > 1) {
    draft.note(
        draft.has("--recompute-num-layers") ? "--recompute-num-layers" : "--checkpoint-num-layers",
        "layers are recomputed one at a time, which does not need more memory");
  }
}

void states(Draft& draft) {
  constexpr const char* flag = "--optimizer-cpu-offload";
  if (draft.has(flag)) draft.set_text("offload.optimizer", "host", flag);
}

// Location of saved activations; must follow recomputation().
void saved_activations(Draft& draft) {
  constexpr const char* num_layers = "--cpu-offloading-num-layers";
  const std::int64_t layers = draft.integer(num_layers, 0);
  if (layers > 0) {
    draft.set_text("offload.activations", "host", num_layers);
    draft.set("offload.activation_layers", fmt::format("{}", layers), num_layers);
  } else if (draft.has("--checkpoint-in-cpu")) {
    draft.set_text("offload.activations", "host", "--checkpoint-in-cpu");
  }
  for (const char* flag : {"--distribute-saved-activations",
                           "--distribute-checkpointed-activations", "--partition-activations"}) {
    if (!draft.has(flag)) continue;
    if (recomputes_in_full(draft)) {
      draft.set("parallel.distribute_saved_activations", "true", flag);
    } else {
      draft.note(flag,
                 "no effect: it distributes the saved inputs of layers with full recomputation");
    }
  }
}

// For Hugging Face, a folder, or a model that Python would download.
void set_tokenizer_file(Draft& draft, const char* flag, bool hugging_face) {
  const fs::path path = draft.value(flag);
  std::error_code error;
  if (hugging_face && fs::is_directory(path, error)) {
    draft.set_text("data.tokenizer_model", (path / "tokenizer.json").string(), flag);
    return;
  }
  const bool local = path.is_absolute() || path.extension() == ".json" || fs::exists(path, error);
  if (hugging_face && !local) {
    draft.complaints().add(
        flag, fmt::format(
                  "'{}' is not a local folder, and models are never downloaded: give a folder with "
                  "tokenizer.json",
                  path.string()));
    return;
  }
  const fs::path file =
      hugging_face && path.extension() != ".json" ? path / "tokenizer.json" : path;
  draft.set_text("data.tokenizer_model", file.string(), flag);
}

// Until April 2026, Megatron added an end-of-document token; since then it is the last one of
// --vocab-size unless --null-tokenizer-eod-id is given.
void null_vocabulary(Draft& draft) {
  const std::string end = "--null-tokenizer-eod-id", flag = "--vocab-size";
  const std::int64_t size = std::min<std::int64_t>(draft.integer(flag, 0), 1LL << 30);
  if (!draft.has(end)) {
    draft.note(
        flag,
        fmt::format(
            "the end-of-document token is an additional token, as in Megatron until April 2026; "
            "since then it is included: model.vocab_size={}",
            size));
    return draft.set("model.vocab_size", fmt::format("{}", size + 1), flag + ", and one more");
  }
  if (draft.integer(end, 0) != size - 1) {
    draft.complaints().add(
        end, fmt::format("{}: Trireme uses the last token as the end of a document, {}",
                         draft.value(end), size - 1));
  }
  draft.set("model.vocab_size", fmt::format("{}", size), flag);
}

void tokenizer(Draft& draft) {
  const bool bert = draft.program() == Program::bert;
  std::string type = draft.value("--tokenizer-type");
  const std::string origin = type.empty() ? "Megatron's default" : "--tokenizer-type";
  if (type.empty()) type = bert ? "BertWordPieceLowerCase" : "GPT2BPETokenizer";
  if (type == "NullTokenizer") {
    if (!draft.has("--vocab-size"))
      return draft.complaints().add("--tokenizer-type", "NullTokenizer requires --vocab-size");
    draft.set_text("data.tokenizer", "null", origin);
    if (draft.has("--tokenizer-model"))
      draft.note("--tokenizer-model", "no effect with NullTokenizer, as in Megatron");
    return null_vocabulary(draft);
  }
  if (draft.has("--vocab-size"))
    draft.note("--vocab-size", "the tokenizer determines its size, as in Megatron");
  for (const auto& [theirs, ours] : choices(*find_flag("--tokenizer-type"))) {
    if (theirs == type) draft.set_text("data.tokenizer", ours, origin);
  }
  const bool hugging_face =
      type == "HFTokenizer" || type == "HuggingFaceTokenizer" || type == "PretrainedFromHF";
  const char* const file = draft.has("--tokenizer-name-or-path") && hugging_face
                               ? "--tokenizer-name-or-path"
                               : "--tokenizer-model";
  if (draft.has(file)) set_tokenizer_file(draft, file, hugging_face);
  const auto need = [&](const char* flag) {
    if (!draft.has(flag)) draft.complaints().add(type, fmt::format("needs {}", flag));
  };
  const bool wordpiece = type.starts_with("Bert");
  if (type == "GPT2BPETokenizer") {
    if (draft.has("--tokenizer-model")) return;  // folder with both files
    need("--merge-file");
  }
  need(wordpiece || type == "GPT2BPETokenizer" ? "--vocab-file" : file);
}

// Numbers out of range are refused when the key is read.
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

// Shares separated by commas, slashes or blanks, in brackets or quotes. Anything else is probably a
// typo, which older versions of Megatron parse differently.
void split(Draft& draft) {
  std::string text = draft.value("--split");
  if (!draft.has("--split")) {
    if (!draft.has("--train-data-path"))
      draft.set_text("data.split", "969, 30, 1", "Megatron's default");
    return;
  }
  if (text.find_first_not_of("0123456789.,/ []()\"'") != std::string::npos) {
    return draft.complaints().add(
        "--split", fmt::format("'{}': expected up to three shares such as 969,30,1", text));
  }
  std::erase_if(
      text, [](char c) { return std::string_view("[]()\"'").find(c) != std::string_view::npos; });
  if (text.find_first_of(",/") == std::string::npos)
    std::replace(text.begin(), text.end(), ' ', ',');
  std::replace(text.begin(), text.end(), '/', ',');
  draft.set_text("data.split", text, "--split");
}

void evaluation(Draft& draft) {
  constexpr const char* flag = "--eval-iters";
  std::int64_t iters = 100;
  if (draft.has(flag)) {
    const std::string text = integer_text(draft.value(flag));
    if (text.empty()) {
      const bool list = draft.value(flag).find(',') != std::string::npos;
      draft.complaints().add(
          flag,
          fmt::format("'{}' is {}", draft.value(flag),
                      list ? "a list for several validation sets, but a run evaluates only one: "
                             "give one number"
                           : "not an integer"));
    } else {
      iters = draft.integer(flag, 100);
    }
  }
  std::string origin = draft.has(flag) ? flag : kDefault;
  constexpr const char* batch = "--eval-global-batch-size";
  if (draft.has(batch) && iters > 0) {
    const std::int64_t trained = draft.integer("--global-batch-size", 0);
    const std::int64_t samples = std::min<std::int64_t>(iters, 1 << 30) *
                                 std::clamp<std::int64_t>(draft.integer(batch, 0), 0, 1 << 30);
    if (trained < 1 || samples < 1 || samples % trained != 0) {
      draft.complaints().add(
          batch,
          fmt::format(
              "evaluations use the global batch size of training, but the {} samples of one are "
              "not a multiple of --global-batch-size",
              samples));
    } else {
      iters = samples / trained;
      origin = fmt::format("{} and {}", flag, batch);
    }
  }
  draft.set("train.eval_iters", fmt::format("{}", std::max<std::int64_t>(iters, 0)), origin);
  if (iters < 0) draft.note(flag, "is negative: no evaluation, as in Megatron");
}

void profile(Draft& draft) {
  const std::int64_t first = std::clamp<std::int64_t>(draft.integer("--profile-step-start", 10), 0,
                                                      std::int64_t{1} << 40) +
                             1;
  const std::int64_t last = draft.integer("--profile-step-end", 12);
  if (draft.has("--profile") && first <= last) {
    std::string origin = "--profile";
    for (const char* flag : {"--profile-step-start", "--profile-step-end"})
      if (draft.has(flag)) origin += fmt::format(", {}", flag);
    draft.set("train.trace_steps", fmt::format("[{}, {}]", first, last), origin);
  } else if (draft.has("--profile")) {
    draft.note("--profile", "no effect: its last step is before its first");
  }
}

// Whether a batch is certainly one micro-batch. Without a size, Megatron's batch is one micro-batch
// for each data-parallel rank.
bool one_micro_batch(const Draft& draft) {
  if (draft.has("--global-batch-size"))
    return draft.integer("--global-batch-size", 0) == draft.integer("--micro-batch-size", 0);
  std::int64_t replicas = draft.ranks();
  for (const char* flag : {"--tensor-model-parallel-size", "--pipeline-model-parallel-size",
                           "--context-parallel-size"}) {
    const std::int64_t degree = std::max<std::int64_t>(draft.integer(flag, 1), 1);
    replicas = replicas % degree == 0 ? replicas / degree : 0;
  }
  return replicas == 1 && !draft.has("--step-batch-size-schedule");
}

// Megatron's loss is the mean over micro-batches of their token means. Token counts differ between
// micro-batches for BERT and with end-of-document masking.
void weights_of_tokens(Draft& draft) {
  const char* const flag = "--calculate-per-token-loss";
  const bool uneven = draft.program() == Program::bert || draft.has("--eod-mask-loss");
  if (!uneven || draft.has(flag) || draft.is_of_a_checkpoint() || one_micro_batch(draft)) return;
  draft.complaints().add(
      flag,
      "Trireme gives all tokens equal weight; without this flag Megatron gives all micro-batches "
      "equal weight, regardless of their number of tokens: add the flag to confirm");
}

// Restricts attention to documents, which are separated by their end-of-document token.
void documents_apart(Draft& draft) {
  const std::string flag = "--dataloader-inter-document-masking";
  if (!draft.has(flag)) return;
  draft.set("data.reset_attention_mask", "true", flag);
  draft.set("data.reset_position_ids", "true", flag);
  draft.ask(flag,
            "Trireme separates documents by the end-of-document token, and Megatron by the index "
            "of the dataset",
            "data.reset_attention_mask");
}

// Complains about folders with checkpoints of another program: a run would start with new weights
// next to them.
void refuse_foreign_checkpoints(Draft& draft) {
  for (const char* flag : {"--load", "--save", "--pretrained-checkpoint"}) {
    const std::string what = draft.has(flag) ? describe_foreign_run(draft.value(flag)) : "";
    if (what.empty()) continue;
    const bool saves = std::string(flag) == "--save";
    draft.complaints().add(
        flag,
        fmt::format(
            "'{}': {}. The run would start with new weights: use {}", draft.value(flag), what,
            saves ? "another folder for --save" : std::string("the converted run for ") + flag));
    return;
  }
}

// A run that resumes from its own folder has the schedule of its checkpoint anyway.
void refuse_scheduler_of_checkpoint(Draft& draft) {
  const bool loads_other = draft.has("--load") && draft.value("--load") != draft.value("--save") &&
                           !draft.has("--finetune");
  for (const char* flag :
       {"--use-checkpoint-opt_param-scheduler", "--use-checkpoint-opt-param-scheduler"}) {
    if (!draft.has(flag)) continue;
    if (loads_other) {
      draft.complaints().add(
          flag, "the configuration always takes precedence: remove it and keep the other flags");
    } else {
      draft.note(flag, "has an effect only if --load is another run's folder");
    }
  }
}

}  // namespace

void translate_run(Draft& draft) {
  precision(draft);
  recomputation(draft);
  states(draft);
  saved_activations(draft);
  translate_optimizer(draft);
  tokenizer(draft);
  fill_in_the_middle(draft);
  documents_apart(draft);
  split(draft);
  evaluation(draft);
  profile(draft);
  weights_of_tokens(draft);
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
  refuse_foreign_checkpoints(draft);
  refuse_scheduler_of_checkpoint(draft);
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
                           "requires a --save folder that differs from --load: a run resumes from "
                           "its own folder");
  }
  if (draft.has("--pretrained-checkpoint")) {
    if (draft.has("--load") && load != save) {
      draft.contradicts("--load", "--pretrained-checkpoint",
                        "initial weights can only come from one place");
      return;
    }
    draft.set_text("checkpoint.load", draft.value("--pretrained-checkpoint"),
                   "--pretrained-checkpoint");
    draft.set("checkpoint.finetune", "true", "--pretrained-checkpoint");
  }
}

}  // namespace trireme::megatron
