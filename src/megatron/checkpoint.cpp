// A table from arguments to flags, which translate() then reads.
#include "megatron/checkpoint.h"

#include <array>

#include "base/error.h"
#include "interop/deepspeed_folder.h"
#include "interop/megatron_checkpoint.h"
#include "interop/megatron_folder.h"
#include "interop/model_tensors.h"
#include "interop/optimizer_states.h"
#include "interop/torch_dist_folder.h"
#include "megatron/translate.h"

namespace trireme::megatron {
namespace {

enum class Word : std::uint8_t {
  value,       // the flag with the argument's value
  when_true,   // the flag alone where the argument is True
  when_false,  // ... where it is False
};

struct Argument {
  const char *name, *flag;
  Word word = Word::value;
};

// Arguments that say what the model computes.
constexpr std::array<Argument, 44> arguments{{
    {"num_layers", "--num-layers"},
    {"hidden_size", "--hidden-size"},
    {"num_attention_heads", "--num-attention-heads"},
    {"max_position_embeddings", "--max-position-embeddings"},
    {"seq_length", "--seq-length"},
    {"ffn_hidden_size", "--ffn-hidden-size"},
    {"kv_channels", "--kv-channels"},
    {"group_query_attention", "--group-query-attention", Word::when_true},
    {"num_query_groups", "--num-query-groups"},
    {"position_embedding_type", "--position-embedding-type"},
    {"use_rotary_position_embeddings", "--use-rotary-position-embeddings", Word::when_true},
    {"add_position_embedding", "--no-position-embedding", Word::when_false},
    {"rotary_base", "--rotary-base"},
    {"rope_theta", "--rotary-base"},  // at Megatron-DeepSpeed
    {"rotary_percent", "--rotary-percent"},
    {"rotary_interleaved", "--rotary-interleaved", Word::when_true},
    {"rotary_seq_len_interpolation_factor", "--rotary-seq-len-interpolation-factor"},
    {"use_rope_scaling", "--use-rope-scaling", Word::when_true},
    {"rope_scaling_factor", "--rope-scaling-factor"},
    {"normalization", "--normalization"},
    {"norm_epsilon", "--norm-epsilon"},
    {"layernorm_epsilon", "--layernorm-epsilon"},
    {"apply_residual_connection_post_layernorm", "--apply-residual-connection-post-layernorm",
     Word::when_true},
    {"swiglu", "--swiglu", Word::when_true},
    {"squared_relu", "--squared-relu", Word::when_true},
    {"openai_gelu", "--openai-gelu", Word::when_true},
    {"bias_gelu_fusion", "--no-bias-gelu-fusion", Word::when_false},
    {"add_bias_linear", "--disable-bias-linear", Word::when_false},
    {"add_qkv_bias", "--add-qkv-bias", Word::when_true},
    {"qk_layernorm", "--qk-layernorm", Word::when_true},
    {"window_size", "--window-size"},
    {"window_attn_skip_freq", "--window-attn-skip-freq"},
    {"untie_embeddings_and_output_weights", "--untie-embeddings-and-output-weights",
     Word::when_true},
    {"make_vocab_size_divisible_by", "--make-vocab-size-divisible-by"},
    {"hidden_dropout", "--hidden-dropout"},
    {"attention_dropout", "--attention-dropout"},
    {"init_method_std", "--init-method-std"},
    {"embed_layernorm", "--embed-layernorm", Word::when_true},
    {"embedding_weights_in_fp32", "--embedding-weights-in-fp32", Word::when_true},
    {"multi_latent_attention", "--multi-latent-attention", Word::when_true},
    {"mtp_num_layers", "--mtp-num-layers"},
    {"bert_binary_head", "--bert-no-binary-head", Word::when_false},
    {"num_key_value_heads", "--num-key-value-heads"},
    {"spec", "--spec"},
}};

// What makes other numbers of the same tensors, and no flag of ours says. None and False are
// harmless everywhere; `plain` is where it is there.
struct Refused {
  const char *name, *why, *plain = "None";
};
constexpr std::array<Refused, 18> refused_arguments{{
    {"apply_layernorm_1p", "its norms are stored as their distance from 1"},
    {"layernorm_zero_centered_gamma", "its norms are stored as their distance from 1"},
    {"glu_activation", "its gate is the second half of the rows"},
    {"heterogeneous_layers_config_path", "its layers differ from each other"},
    {"quick_geglu", "its activation is another one"},
    {"activation_func_clamp_value", "its activation is clamped"},
    {"glu_linear_offset", "its gate has an offset", "0.0"},
    {"softmax_type", "its attention has another softmax", "vanilla"},
    {"softmax_scale", "its attention has a scale of its own"},
    {"qk_l2_norm", "its queries and keys are divided by their lengths"},
    {"no_rope_freq", "some of its layers have no positions"},
    {"attention_output_gate", "its attention has a gate"},
    {"experimental_attention_variant", "its attention is another one"},
    {"linear_attention_type", "its attention is another one"},
    {"mrope_section", "its positions have several parts"},
    {"use_mup", "its outputs are scaled by widths"},
    {"is_hybrid_model", "not all of its layers are attention"},
    {"hybrid_override_pattern", "not all of its layers are attention"},
}};

void refuse(const MegatronCheckpoint& folder, const std::string& name, const std::string& value,
            const std::string& why) {
  fail_input("'{}': its argument {} is {}: {}", folder.where(), name, value, why);
}

std::vector<std::string> words_of(const MegatronCheckpoint& folder) {
  for (const auto& [name, why, plain] : refused_arguments) {
    const std::string found = folder.argument(name).value_or("None");
    if (found != "None" && found != "False" && found != plain) refuse(folder, name, found, why);
  }
  const std::string experts = folder.argument("num_experts").value_or("1");
  if (experts != "1" && experts != "(1)")
    refuse(folder, "num_experts", experts, "models with experts are not read");
  for (const char* name :
       {"num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings"}) {
    if (!folder.argument(name))
      fail_input("'{}': its arguments lack {}, a number", folder.where(), name);
  }
  std::vector<std::string> words;
  const bool has_newer_epsilon = folder.argument("norm_epsilon").has_value();
  for (const auto& [name, flag, word] : arguments) {
    const auto value = folder.argument(name);
    if (!value || (std::string_view(name) == "layernorm_epsilon" && has_newer_epsilon)) continue;
    if (word == Word::value) {
      words.emplace_back(fmt::format("{}={}", flag, *value));
    } else if (*value == (word == Word::when_true ? "True" : "False")) {
      words.emplace_back(flag);
    }
  }
  return words;
}

// All rows: which of them a tokenizer with ids of its own beyond its words uses is in no argument.
std::string check_vocabulary(const MegatronCheckpoint& folder, std::int64_t rows) {
  const auto number = [&](const char* name) { return folder.count_argument(name).value_or(0); };
  if (folder.strips_padding()) return "";
  if (const std::int64_t told = number("padded_vocab_size"); told != 0 && told != rows) {
    fail_input(
        "'{}': the embedding has {} rows in all ranks of tensor parallelism, and by the argument "
        "padded_vocab_size {} were expected",
        folder.where(), rows, told);
  }
  const std::int64_t words = number("vocab_size");
  if (words == rows) return "";
  return fmt::format(
      "all {} rows of the vocabulary are kept, with those that pad it{} (--set "
      "model.vocab_size=N keeps the first N)",
      rows, words > 0 ? fmt::format("; the run was told of {} words", words) : "");
}

std::int64_t product(const MegatronCheckpoint& folder, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out) && out >= 0) return out;
  fail_input("'{}': its arguments amount to {} times {} samples or tokens, which no run can read",
             folder.where(), a, b);
}

// What the arguments say of the run whose moments came along.
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
             "how many samples it had seen is not known, so that data and the schedule of the "
             "learning rate begin anew");
  }
  OptimizerConfig& optimizer = training.optimizer;
  for (const auto& [name, value] : {std::pair{"lr", &optimizer.lr},
                                    {"adam_beta1", &optimizer.beta1},
                                    {"adam_beta2", &optimizer.beta2},
                                    {"adam_eps", &optimizer.eps},
                                    {"weight_decay", &optimizer.weight_decay}}) {
    if (const auto told = folder.number_argument(name)) *value = *told;
  }
  optimizer.decay_style = "constant";
  return training;
}

ForeignModel open_model(MegatronCheckpoint& folder, const char* program,
                        const ModelSettings& settings) {
  const bool bert = folder.is_bert();
  const Translation translation =
      translate(words_of(folder),
                {.program = bert ? Program::bert : Program::gpt, .lenient = true, .read_file = {}});
  for (const Note& lost : translation.lost) {
    // Flags of the run, which do not matter here, are missing from the words.
    if (!lost.flag.starts_with("--")) continue;
    fail_input("'{}': its arguments amount to {}, which cannot be read: {}", folder.where(),
               lost.flag, lost.text);
  }
  ForeignModel out;
  out.kind = fmt::format("{} {}", program, bert ? "BERT" : "GPT");
  out.model = to_config(translation).model;
  const std::int64_t rows = folder.vocabulary_rows();
  const std::string kept = check_vocabulary(folder, rows);
  out.model.vocab_size = rows;
  resolve(out.model);
  out.model = with_settings(out.model, settings, out.note);
  if (out.model.vocab_size == rows) add_note(out.note, kept);
  validate(out.model);
  out.mapping = same_tensors(out.model);
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

ForeignModel open_torch_dist_folder(const fs::path& path, const ModelSettings& settings) {
  TorchDistFolder folder(path);
  return open_model(folder, "Megatron-Core", settings);
}

ForeignModel open_deepspeed_folder(const fs::path& path, const ModelSettings& settings) {
  DeepspeedFolder folder(path);
  return open_model(folder, "Megatron-DeepSpeed", settings);
}

}  // namespace trireme::megatron
