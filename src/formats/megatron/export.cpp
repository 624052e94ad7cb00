// Exports checkpoints as Megatron-LM folders and as distributed checkpoints.
#include "formats/megatron/export.h"

#include "checkpoint/checkpoint_source.h"
#include "config/families.h"
#include "config/optimizers.h"
#include "formats/megatron/mapping.h"
#include "formats/megatron/torch_dist_writer.h"
#include "formats/output_folder.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

ConversionReport report_of(const ModelConfig& model, const fs::path& to,
                           const TensorMapping& weights, int tp, std::string note) {
  const bool is_bert = family_of(model).architecture == Architecture::encoder;
  ConversionReport report{is_bert ? "Megatron BERT" : "Megatron GPT",
                          to,
                          static_cast<std::int64_t>(weights.theirs.size()),
                          count_elements(weights.theirs),
                          std::move(note),
                          static_cast<std::int64_t>(weights.ours.size())};
  if (const std::int64_t rows = megatron_vocabulary(model, tp); rows != model.vocab_size) {
    add_note(
        report.note,
        fmt::format("the vocabulary of {} words is padded to {} rows, which repeat the last one{}",
                    model.vocab_size, rows,
                    is_bert ? ", with a bias that keeps them from being predicted" : ""));
  }
  return report;
}

}  // namespace

ConversionReport export_megatron(const fs::path& checkpoint, const fs::path& to,
                                 const MegatronLayout& layout, const TorchDict& arguments,
                                 const ExportOptions& options) {
  require_empty(to);
  CheckpointReader reader(checkpoint);
  const ModelConfig model = checkpoint_config(reader.folder()).model;
  const TensorMapping mapping = megatron_mapping(model);
  CheckpointSource source(reader, {options.pool, options.progress, options.stopped});
  const TensorAssembler assembler(mapping, Direction::to_theirs, source);

  OutputFolder output(to);
  write_megatron_folder(to, {model, layout, arguments, reader.state().step, options.dtype},
                        assembler);
  output.keep();
  return report_of(model, to, mapping, layout.tp, "weights alone: Megatron begins at step 0");
}

ConversionReport export_torch_dist(const fs::path& checkpoint, const fs::path& to,
                                   const TorchDistCommon& common, const ExportOptions& options) {
  require_empty(to);
  CheckpointReader reader(checkpoint);
  const Config config = checkpoint_config(reader.folder());
  const CheckpointState& state = reader.state();
  const TensorMapping weights = megatron_mapping(config.model);
  TensorMapping mapping = weights;
  const bool with_states = is_adam(config.optimizer.name) && state.step > 0 &&
                           reader.find(moment_name(mapping.ours[0].name, 0)) != nullptr;
  if (with_states) add_moments(mapping, moment_name);
  CheckpointSource source(reader, {options.pool, options.progress, options.stopped});
  const TensorAssembler assembler(mapping, Direction::to_theirs, source);

  OutputFolder output(to);
  write_torch_dist_folder(
      to,
      {config.model, common(config, state, with_states), state.step, with_states, options.dtype,
       static_cast<std::uint64_t>(options.max_file_bytes)},
      assembler);
  output.keep();
  return report_of(
      config.model, to, weights, 1,
      with_states
          ? fmt::format("Megatron's distributed optimizer continues after step {}", state.step)
          : "weights alone: Megatron begins at step 0");
}

}  // namespace trireme
