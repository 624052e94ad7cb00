// Opens Megatron checkpoints: arguments describe the model, tensors provide its weights.
#include "importers/megatron/checkpoint.h"

#include "base/error.h"
#include "formats/deepspeed/folder.h"
#include "formats/megatron/checkpoint.h"
#include "formats/megatron/folder.h"
#include "formats/megatron/mapping.h"
#include "formats/megatron/torch_dist_folder.h"
#include "importers/megatron/arguments.h"
#include "importers/megatron/unknown_arguments.h"
#include "tensors/optimizer_states.h"

namespace trireme::megatron {
namespace {

// Keeps all rows: no argument tells which ids beyond its words a tokenizer uses.
std::string check_vocabulary(const MegatronCheckpoint& folder, std::int64_t rows) {
  const auto number = [&](const char* name) { return folder.count_argument(name).value_or(0); };
  if (folder.strips_padding()) return "";
  if (const std::int64_t told = number("padded_vocab_size"); told != 0 && told != rows) {
    fail_input(
        "'{}': the embedding has {} rows over all tensor-parallel ranks, but padded_vocab_size in "
        "its arguments is {}",
        folder.where(), rows, told);
  }
  const std::int64_t words = number("vocab_size");
  if (words == rows || number(words_argument) == rows) return "";
  return fmt::format(
      "all {} rows of the vocabulary are kept, including padding{} (--set model.vocab_size=N keeps "
      "only the first N)",
      rows, words > 0 ? fmt::format("; the run set a vocabulary of {}", words) : "");
}

std::int64_t product(const MegatronCheckpoint& folder, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out) && out >= 0) return out;
  fail_input(
      "'{}': its arguments imply {} times {} samples or tokens, which is not a valid position",
      folder.where(), a, b);
}

// Our writer records the number of vocabulary rows without padding.
std::int64_t words_of(const MegatronCheckpoint& folder, std::int64_t rows) {
  const std::int64_t told = folder.count_argument(words_argument).value_or(0);
  return told > 0 && told <= rows && !folder.strips_padding() ? told : rows;
}

// Training state described by the arguments, for imported moments.
ForeignTraining training_of(const MegatronCheckpoint& folder, MegatronCheckpoint::Progress progress,
                            std::int64_t seq_length, std::string& note) {
  ForeignTraining training;
  training.step = progress.step;
  training.optimizer_steps = progress.optimizer_steps;
  auto samples = folder.count_argument("consumed_train_samples");
  const auto batch = folder.count_argument("global_batch_size");
  if (!samples && batch) samples = product(folder, *batch, progress.step);
  if (samples) {
    training.samples = *samples;
    training.tokens = product(folder, *samples, seq_length);
  } else {
    add_note(note,
             "the number of consumed samples is not known, so data and the learning-rate schedule "
             "start from the beginning");
  }
  OptimizerConfig& optimizer = training.optimizer;
  for (const auto& [name, value] : {std::pair{"lr", &optimizer.lr},
                                    {"adam_beta1", &optimizer.beta1},
                                    {"adam_beta2", &optimizer.beta2},
                                    {"adam_eps", &optimizer.eps},
                                    {"weight_decay", &optimizer.weight_decay}}) {
    if (const auto told = folder.number_argument(name)) *value = *told;
  }
  optimizer.decay_style = DecayStyle::constant;
  return training;
}

constexpr const char* tanh_argument = "openai_gelu";

// Treats arguments that Megatron-Core ignores as absent.
std::optional<std::string> read_argument(const MegatronCheckpoint& folder, std::string_view name) {
  if (name == tanh_argument && folder.is_core()) return std::nullopt;
  return folder.argument(name);
}

// Requires the RoPE scaling that Megatron-Core hardcodes regardless of this argument.
void require_core_rope_scaling(const MegatronCheckpoint& folder, const ModelSettings& settings) {
  constexpr double only_factor = 8;
  const auto factor = folder.number_argument("rope_scaling_factor");
  const bool is_scaled = folder.argument("use_rope_scaling") == "True";
  if (!folder.is_core() || !is_scaled || factor.value_or(only_factor) == only_factor) return;
  const std::string key = "model.rope_scaling_factor";
  for (const std::string& setting : settings)
    if (setting.starts_with(key + "=")) return;
  fail_input(
      "'{0}': its argument rope_scaling_factor is {1}, but Megatron always uses {2}: --set {3}={2} "
      "computes what Megatron does, and --set {3}={1} follows the argument",
      folder.where(), *factor, only_factor, key);
}

std::string activation_note(const MegatronCheckpoint& folder, const ModelConfig& model) {
  const bool asks_for_tanh = folder.argument(tanh_argument) == "True";
  const bool is_tanh = model.activation == MlpActivation::gelu_tanh;
  if (folder.is_core() && asks_for_tanh && model.activation == MlpActivation::gelu_erf)
    return "openai_gelu has no effect, as in Megatron-Core, which then uses the exact GELU";
  if (folder.is_bert() && is_tanh && (folder.is_core() || !asks_for_tanh)) {
    return "Megatron uses the tanh approximation of GELU in the layers of this BERT and the exact "
           "GELU in its masked-LM head; Trireme uses the tanh approximation in both, which differs "
           "by less than 0.0005 (--set model.activation=gelu_erf makes both exact)";
  }
  return "";
}

// A run's settings as the arguments that say where it is and how it continues.
std::vector<MegatronArgument> arguments_of_run(const Config& run) {
  std::vector<MegatronArgument> arguments{
      {"num_layers", fmt::format("{}", run.model.num_layers)},
      {"lr", fmt::format("{}", run.optimizer.lr)},
      {"adam_beta1", fmt::format("{}", run.optimizer.beta1)},
      {"adam_beta2", fmt::format("{}", run.optimizer.beta2)},
      {"adam_eps", fmt::format("{}", run.optimizer.eps)},
      {"weight_decay", fmt::format("{}", run.optimizer.weight_decay)},
      {"tensor_model_parallel_size", fmt::format("{}", run.parallel.tp)}};
  if (run.train.global_batch_size > 0)
    arguments.push_back({"global_batch_size", fmt::format("{}", run.train.global_batch_size)});
  if (run.model.vocab_size > 0)
    arguments.push_back({words_argument, fmt::format("{}", run.model.vocab_size)});
  return arguments;
}

ForeignModel open_model(MegatronCheckpoint& folder, const char* program,
                        const ModelSettings& settings, Experts experts = Experts::refused,
                        const Config* run = nullptr) {
  const bool bert = folder.is_bert();
  ForeignModel out;
  out.kind = fmt::format("{} {}", program, bert ? "BERT" : "GPT");
  require_core_rope_scaling(folder, settings);
  const auto argument = [&](std::string_view name) { return read_argument(folder, name); };
  out.model = run ? run->model : model_of_arguments(folder.where(), bert, argument, experts);
  const std::int64_t rows = folder.vocabulary_rows();
  const std::string kept = check_vocabulary(folder, rows);
  out.model.vocab_size = words_of(folder, rows);
  resolve(out.model);
  out.model = with_settings(out.model, settings, out.note);
  if (out.model.vocab_size == rows) add_note(out.note, kept);
  add_note(out.note, activation_note(folder, out.model));
  add_note(out.note, note_of_unknown_arguments(folder.arguments()));
  validate(out.model);
  out.mapping = megatron_mapping(out.model);
  auto weights = folder.join(out.model);
  if (const auto progress = folder.progress()) {
    add_moments(out.mapping, moment_name);
    out.training = training_of(folder, *progress, out.model.seq_length, out.note);
  }
  add_note(out.note, folder.note());
  weights->require_use_of_all(out.mapping);
  out.weights = std::move(weights);
  return out;
}

}  // namespace

ForeignModel open_megatron_folder(const fs::path& path, const ModelSettings& settings) {
  MegatronFolder folder(path);
  return open_model(folder, "Megatron", settings);
}

ForeignModel open_torch_dist_folder(const fs::path& path, const ModelSettings& settings,
                                    const DescribeRun& describe) {
  std::optional<Config> run;
  TorchDistFolder folder(path, [&](const fs::path& step) {
    if (describe) run = describe(step);
    return run ? std::optional(arguments_of_run(*run)) : std::nullopt;
  });
  return open_model(folder, "Megatron-Core", settings, Experts::read, run ? &*run : nullptr);
}

ForeignModel open_deepspeed_folder(const fs::path& path, const ModelSettings& settings) {
  DeepspeedFolder folder(path);
  return open_model(folder, "Megatron-DeepSpeed", settings);
}

}  // namespace trireme::megatron
