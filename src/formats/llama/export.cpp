// Exports checkpoints in Meta's Llama format.
#include "formats/llama/export.h"

#include "checkpoint/checkpoint_source.h"
#include "formats/huggingface/names.h"
#include "formats/llama/params.h"
#include "formats/llama/writer.h"
#include "formats/output_folder.h"

namespace trireme {
namespace {

// Copies the tokenizer file if Meta's programs can read it; returns whether it did.
bool copy_tokenizer_file(const TokenizerFiles& tokenizer, const fs::path& to) {
  if (tokenizer.type != "llama2" && tokenizer.type != "tiktoken") return false;
  if (!fs::is_regular_file(tokenizer.model_file)) return false;
  fs::copy_file(tokenizer.model_file, to / "tokenizer.model");
  return true;
}

}  // namespace

ConversionReport export_llama(const fs::path& checkpoint, const fs::path& to, int parts,
                              const ExportOptions& options) {
  require_empty(to);
  CheckpointReader reader(checkpoint);
  const ModelConfig model = checkpoint_config(reader.folder()).model;
  llama_params(model);  // refuses models that the format cannot express
  const TensorMapping mapping = huggingface_mapping({&llama_kind, model, {}, ""});
  CheckpointSource source(reader, {options.pool, options.progress, options.stopped});
  const TensorAssembler assembler(mapping, Direction::to_theirs, source);

  OutputFolder output(to);
  std::string note = write_llama_folder(to, {model, parts, options.dtype}, assembler);
  if (!copy_tokenizer_file(options.tokenizer, to))
    add_note(note,
             "no tokenizer.model was written: the run has no tokenizer that Meta's programs "
             "support");
  output.keep();
  return {"Llama",
          to,
          static_cast<std::int64_t>(mapping.theirs.size()),
          count_elements(mapping.theirs),
          std::move(note),
          static_cast<std::int64_t>(mapping.ours.size())};
}

}  // namespace trireme
