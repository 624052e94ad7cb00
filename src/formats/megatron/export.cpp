// Exports checkpoints as Megatron-LM folders.
#include "formats/megatron/export.h"

#include "checkpoint/checkpoint_source.h"
#include "config/families.h"
#include "formats/output_folder.h"
#include "tensors/model_tensors.h"

namespace trireme {
ConversionReport export_megatron(const fs::path& checkpoint, const fs::path& to,
                                 const MegatronLayout& layout, const TorchDict& arguments,
                                 const ExportOptions& options) {
  require_empty(to);
  CheckpointReader reader(checkpoint);
  const ModelConfig model = checkpoint_config(reader.folder()).model;
  const TensorMapping mapping = same_tensors(model);
  CheckpointSource source(reader, {options.pool, options.progress, options.stopped});
  const TensorAssembler assembler(mapping, Direction::to_theirs, source);

  OutputFolder output(to);
  write_megatron_folder(to, {model, layout, arguments, reader.state().step, options.dtype},
                        assembler);
  output.keep();
  ConversionReport report{
      family_of(model).architecture == Architecture::encoder ? "Megatron BERT" : "Megatron GPT",
      to,
      static_cast<std::int64_t>(mapping.theirs.size()),
      count_elements(mapping.theirs),
      "weights alone: Megatron begins at step 0",
      static_cast<std::int64_t>(mapping.ours.size())};
  if (const std::int64_t rows = megatron_vocabulary(model, layout.tp); rows != model.vocab_size) {
    add_note(
        report.note,
        fmt::format("the vocabulary of {} words is padded to {} rows, which repeat the last one{}",
                    model.vocab_size, rows,
                    family_of(model).architecture == Architecture::encoder
                        ? ", with a bias that keeps them from being predicted"
                        : ""));
  }
  return report;
}

}  // namespace trireme
