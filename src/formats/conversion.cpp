// Code shared by all conversions, and import of a foreign model as a run's folder.
#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "formats/conversion.h"
#include "formats/output_folder.h"
#include "formats/training_state.h"

namespace trireme {
namespace {

// Special tokens are stored as counters in the state of an imported checkpoint.
struct TokenCounter {
  const char* name;
  std::int64_t SpecialTokens::*id;
};
constexpr TokenCounter token_counters[] = {{"bos_token_id", &SpecialTokens::bos},
                                           {"eos_token_id", &SpecialTokens::eos},
                                           {"pad_token_id", &SpecialTokens::pad}};
std::string further_eos_counter(std::size_t i) {
  return fmt::format("eos_token_id.{}", i + 1);
}

}  // namespace

void keep_tokens(CheckpointState& state, const SpecialTokens& tokens) {
  for (const auto& [name, id] : token_counters) state.counters[name] = tokens.*id;
  for (std::size_t i = 0; i < tokens.further_eos.size(); ++i) {
    state.counters[further_eos_counter(i)] = tokens.further_eos[i];
  }
}

SpecialTokens imported_tokens(const CheckpointState& state) {
  SpecialTokens tokens;
  const auto find = [&](const std::string& name) -> std::int64_t {
    const auto it = state.counters.find(name);
    return it == state.counters.end() ? -1 : it->second;
  };
  for (const auto& [name, id] : token_counters) tokens.*id = find(name);
  for (std::size_t i = 0; find(further_eos_counter(i)) >= 0; ++i) {
    tokens.further_eos.push_back(find(further_eos_counter(i)));
  }
  return tokens;
}

Config checkpoint_config(const fs::path& checkpoint, const std::vector<std::string>& overrides) {
  const CheckpointReader reader(checkpoint);
  return parse_config(reader.state().config_toml,
                      (reader.folder() / manifest_file).string() + ": config_toml", overrides);
}

void require_empty(const fs::path& to) {
  if (fs::exists(to) && !fs::is_empty(to))
    fail_input("'{}' is not an empty folder: give another one", to.string());
}

namespace {

Precision precision_of(DType dtype) {
  if (dtype == DType::bf16) return Precision::bf16;
  if (dtype == DType::f16) return Precision::fp16;
  return dtype == DType::f64 ? Precision::fp64 : Precision::fp32;
}

// The configuration written next to the weights can be used as is to continue training.
Config run_config(const ForeignModel& model, const fs::path& to, DType dtype,
                  const TokenizerFiles& tokenizer) {
  Config config = model.config.value_or(Config{});
  if (!model.config) {
    config.run.precision = precision_of(dtype);
    if (model.training) config.optimizer = model.training->optimizer;
  }
  config.run.dir = (to / "train").string();
  config.checkpoint.load = to.string();
  config.checkpoint.finetune = !model.training;
  config.checkpoint.load_optimizer = true;
  config.model = model.model;
  if (!tokenizer.type.empty() || !model.config) {
    config.data.tokenizer = tokenizer.type;
    config.data.vocab_file = tokenizer.vocab_file;
    config.data.merge_file = tokenizer.merge_file;
    config.data.tokenizer_model = tokenizer.model_file;
  }
  return config;
}

}  // namespace

CheckpointState state_of(const ForeignTraining& training) {
  CheckpointState state;
  state.step = training.step;
  state.consumed_samples = training.samples;
  state.consumed_tokens = training.tokens;
  state.counters = {{"scheduled_samples", training.samples},
                    {"optimizer_steps", training.optimizer_steps}};
  return state;
}

ConversionReport import_model(const ForeignModel& model, const fs::path& to,
                              const std::string& program, ThreadPool* pool) {
  if (find_checkpoint(to)) {
    fail_input("'{}' already contains a checkpoint: give another folder", to.string());
  }
  const TensorMapping& mapping = model.mapping;
  const TensorAssembler assembler(mapping, Direction::to_ours, *model.weights);

  OutputFolder output(to);
  const TokenizerFiles tokenizer =
      model.tokenizer ? model.tokenizer(to / "tokenizer") : TokenizerFiles{};
  CheckpointState state;
  if (model.training) state = state_of(*model.training);
  state.config_toml = to_toml(run_config(model, to, assembler.dtype(0), tokenizer));
  parse_config(state.config_toml, "the model");  // verifies that the configuration can be parsed
  keep_tokens(state, model.tokens);

  std::vector<SourceSlice> slices;
  for (std::size_t i = 0; i < mapping.ours.size(); ++i) {
    const NamedTensor& tensor = mapping.ours[i];
    slices.push_back(
        {tensor.name, assembler.dtype(i), tensor.shape, Region::whole(tensor.shape), nullptr});
  }
  CheckpointWriter writer({to / "checkpoints", program}, state);
  writer.write(slices, pool,
               [&](std::size_t slice, std::int64_t begin, std::int64_t end, std::byte* dst) {
                 assembler.produce(slice, assembler.dtype(slice), begin, end, dst);
               });
  const SaveReport saved = writer.commit();
  std::string note = model.note;
  if (model.training) {
    add_note(note, fmt::format("training continues after step {}, with the optimizer states",
                               model.training->step));
  }
  if (tokenizer.type.empty() && !model.config)
    add_note(note, tokenizer.note.empty() ? "no tokenizer files were found" : tokenizer.note);
  write_file_durably(to / "config.toml", state.config_toml);
  output.keep();
  return {model.kind,
          saved.folder,
          static_cast<std::int64_t>(slices.size()),
          count_elements(mapping.ours),
          std::move(note),
          static_cast<std::int64_t>(mapping.theirs.size())};
}

}  // namespace trireme
