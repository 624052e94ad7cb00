// Wires the tables of interop/ to the reader of checkpoints.
#include "checkpoint/huggingface.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/checkpoint_source.h"
#include "checkpoint/layout.h"
#include "checkpoint/output_folder.h"
#include "checkpoint/reader.h"
#include "interop/huggingface_folder.h"
#include "interop/huggingface_names.h"
#include "interop/huggingface_tokenizer.h"

namespace trireme {
namespace {

// Special tokens travel in the state of an imported checkpoint.
struct TokenCounter {
  const char* name;
  std::int64_t HuggingFaceTokens::*id;
};
constexpr TokenCounter token_counters[] = {{"bos_token_id", &HuggingFaceTokens::bos},
                                           {"eos_token_id", &HuggingFaceTokens::eos},
                                           {"pad_token_id", &HuggingFaceTokens::pad}};
std::string further_eos_counter(std::size_t i) {
  return fmt::format("eos_token_id.{}", i + 1);
}

}  // namespace

void keep_tokens(CheckpointState& state, const HuggingFaceTokens& tokens) {
  for (const auto& [name, id] : token_counters) state.counters[name] = tokens.*id;
  for (std::size_t i = 0; i < tokens.further_eos.size(); ++i) {
    state.counters[further_eos_counter(i)] = tokens.further_eos[i];
  }
}

HuggingFaceTokens imported_tokens(const CheckpointState& state) {
  HuggingFaceTokens tokens;
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

namespace {

// Those of the run's tokenizer come first; where it names none, or the same end, the kept ones say
// more.
HuggingFaceTokens tokens_of(const CheckpointState& state, const HuggingFaceTokens& given) {
  HuggingFaceTokens tokens = imported_tokens(state);
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

Config checkpoint_config(const fs::path& checkpoint, const std::vector<std::string>& overrides) {
  const CheckpointReader reader(checkpoint);
  return parse_config(reader.state().config_toml,
                      (reader.folder() / manifest_file).string() + ": config_toml", overrides);
}

ConversionReport export_huggingface(const fs::path& checkpoint, const fs::path& to,
                                    const ExportOptions& options) {
  if (fs::exists(to) && !fs::is_empty(to)) {
    fail_input("'{}' is not an empty folder; give another one", to.string());
  }
  CheckpointReader reader(checkpoint);
  const Config config = checkpoint_config(reader.folder());
  const HuggingFaceModel model{huggingface_kind(config.model), config.model,
                               tokens_of(reader.state(), options.tokens)};
  const TensorMapping mapping = huggingface_mapping(model);
  CheckpointSource source(reader, {options.pool, options.progress, options.stopped});
  const TensorAssembler assembler(mapping, Direction::to_theirs, source);

  OutputFolder output(to);
  std::string note =
      export_huggingface_tokenizer(options.tokenizer, to, config.model.max_positions);
  add_note(note, huggingface_note(config.model));
  write_huggingface_folder(to, {model, options.dtype, options.max_file_bytes, options.files},
                           assembler);
  output.keep();
  return {huggingface_class(model.kind), to, static_cast<std::int64_t>(mapping.theirs.size()),
          count_elements(mapping.theirs), std::move(note)};
}

}  // namespace trireme
