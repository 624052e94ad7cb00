// Converts between Trireme checkpoints and Hugging Face folders.
#include "formats/huggingface/export.h"

#include <algorithm>

#include "checkpoint/checkpoint_source.h"
#include "checkpoint/reader.h"
#include "formats/huggingface/folder.h"
#include "formats/huggingface/model.h"
#include "formats/huggingface/names.h"
#include "formats/huggingface/tokenizer.h"
#include "formats/output_folder.h"

namespace trireme {
namespace {

// The run's tokenizer takes precedence; if it defines no tokens or has the same end token, the
// imported tokens are more complete.
SpecialTokens tokens_of(const CheckpointState& state, const SpecialTokens& given) {
  SpecialTokens tokens = imported_tokens(state);
  const bool other_end = given.eos >= 0 && given.eos != tokens.eos &&
                         !std::ranges::count(tokens.further_eos, given.eos);
  if (other_end) {
    tokens.eos = given.eos;
    tokens.further_eos = given.further_eos;
  }
  if (given.bos >= 0) tokens.bos = given.bos;
  if (given.pad >= 0) tokens.pad = given.pad;
  return tokens;
}

}  // namespace

ConversionReport import_huggingface(const fs::path& from, const fs::path& to,
                                    const std::string& program, ThreadPool* pool) {
  return import_model(open_huggingface_folder(from), to, program, pool);
}

ConversionReport export_huggingface(const fs::path& checkpoint, const fs::path& to,
                                    const ExportOptions& options) {
  require_empty(to);
  CheckpointReader reader(checkpoint);
  const Config config = checkpoint_config(reader.folder());
  const HuggingFaceModel model{huggingface_kind(config.model), config.model,
                               tokens_of(reader.state(), options.tokens)};
  const TensorMapping mapping = huggingface_export_mapping(model);
  CheckpointSource source(reader, {options.pool, options.progress, options.stopped});
  const TensorAssembler assembler(mapping, Direction::to_theirs, source);

  OutputFolder output(to);
  std::string note =
      export_huggingface_tokenizer(options.tokenizer, to, config.model.max_positions);
  add_note(note, huggingface_note(config.model));
  write_huggingface_folder(to, {model, options.dtype, options.max_file_bytes, options.files},
                           assembler);
  output.keep();
  return {huggingface_class(*model.kind, config.model),
          to,
          static_cast<std::int64_t>(mapping.theirs.size()),
          count_elements(mapping.theirs),
          std::move(note),
          static_cast<std::int64_t>(mapping.ours.size())};
}

}  // namespace trireme
