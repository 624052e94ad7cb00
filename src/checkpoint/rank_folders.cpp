// Wires the writers of interop/ to the reader of checkpoints.
#include "checkpoint/rank_folders.h"

#include "base/error.h"
#include "checkpoint/checkpoint_source.h"
#include "checkpoint/output_folder.h"
#include "config/families.h"
#include "interop/huggingface_names.h"
#include "interop/llama_writer.h"
#include "interop/model_tensors.h"

namespace trireme {
namespace {

void require_empty(const fs::path& to) {
  if (fs::exists(to) && !fs::is_empty(to))
    fail_input("'{}' is not an empty folder; give another one", to.string());
}

// Whether Meta's programs read the tokenizer, whose file is then copied.
bool copy_tokenizer_file(const TokenizerFiles& tokenizer, const fs::path& to) {
  if (tokenizer.type != "llama2" && tokenizer.type != "tiktoken") return false;
  if (!fs::is_regular_file(tokenizer.model_file)) return false;
  fs::copy_file(tokenizer.model_file, to / "tokenizer.model");
  return true;
}

}  // namespace

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
      family_of(model).architecture == Architecture::encoder ? "Megatron BERT" : "Megatron GPT", to,
      static_cast<std::int64_t>(mapping.theirs.size()), count_elements(mapping.theirs),
      "weights alone: Megatron begins at step 0"};
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

ConversionReport export_llama(const fs::path& checkpoint, const fs::path& to, int parts,
                              const ExportOptions& options) {
  require_empty(to);
  CheckpointReader reader(checkpoint);
  const ModelConfig model = checkpoint_config(reader.folder()).model;
  require_llama_of_meta(model);
  const TensorMapping mapping = huggingface_mapping({huggingface_kind(model), model, {}, ""});
  CheckpointSource source(reader, {options.pool, options.progress, options.stopped});
  const TensorAssembler assembler(mapping, Direction::to_theirs, source);

  OutputFolder output(to);
  std::string note = write_llama_folder(to, {model, parts, options.dtype}, assembler);
  if (!copy_tokenizer_file(options.tokenizer, to))
    add_note(note,
             "no tokenizer.model was written: the run has no tokenizer that Meta's programs read");
  output.keep();
  return {"Llama", to, static_cast<std::int64_t>(mapping.theirs.size()),
          count_elements(mapping.theirs), std::move(note)};
}

}  // namespace trireme
