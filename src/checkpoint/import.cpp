// Makes a run's folder of a model of another program.
#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/layout.h"
#include "checkpoint/output_folder.h"
#include "checkpoint/writer.h"

namespace trireme {
namespace {

const char* precision_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "fp16";
    case DType::f64:
      return "fp64";
    default:
      return "fp32";
  }
}

// As it is, the configuration next to the weights continues training from them.
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

CheckpointState state_of(const ForeignTraining& training) {
  CheckpointState state;
  state.step = training.step;
  state.consumed_samples = training.samples;
  state.consumed_tokens = training.tokens;
  state.counters = {{"scheduled_samples", training.samples},
                    {"optimizer_steps", training.optimizer_steps}};
  return state;
}

}  // namespace

ConversionReport import_huggingface(const fs::path& from, const fs::path& to,
                                    const std::string& program, ThreadPool* pool) {
  return import_model(open_huggingface_folder(from), to, program, pool);
}

ConversionReport import_model(const ForeignModel& model, const fs::path& to,
                              const std::string& program, ThreadPool* pool) {
  if (find_checkpoint(to)) {
    fail_input("'{}' already holds a checkpoint; give another folder", to.string());
  }
  const TensorMapping& mapping = model.mapping;
  const TensorAssembler assembler(mapping, Direction::to_ours, *model.weights);

  OutputFolder output(to);
  const TokenizerFiles tokenizer =
      model.tokenizer ? model.tokenizer(to / "tokenizer") : TokenizerFiles{};
  CheckpointState state;
  if (model.training) state = state_of(*model.training);
  state.config_toml = to_toml(run_config(model, to, assembler.dtype(0), tokenizer));
  parse_config(state.config_toml, "the model");  // whoever uses the run will read it
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
    add_note(note, fmt::format("training goes on after step {}, with the states of the optimizer",
                               model.training->step));
  }
  if (tokenizer.type.empty() && !model.config) add_note(note, "no tokenizer's files were found");
  write_file_durably(to / "config.toml", state.config_toml);
  output.keep();
  return {model.kind, saved.folder, static_cast<std::int64_t>(slices.size()),
          count_elements(mapping.ours), std::move(note)};
}

}  // namespace trireme
