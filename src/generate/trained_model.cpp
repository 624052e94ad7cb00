// Loads a checkpoint's weights into a forward-only stage.
#include "generate/trained_model.h"

#include <algorithm>
#include <cstdio>

#include "base/counted.h"
#include "base/thread_pool.h"
#include "checkpoint/layout.h"
#include "config/families.h"
#include "data/configured_tokenizer.h"
#include "formats/huggingface/export.h"
#include "model/rotary.h"
#include "runtime/devices.h"
#include "runtime/memory.h"
#include "tokenizer/capped_tokenizer.h"

namespace trireme {
namespace {

std::string manifest_name(const CheckpointReader& reader) {
  return (reader.folder() / manifest_file).string();
}

// Fails early rather than being killed by the OS halfway.
void check_memory(const Stage& stage) {
  const std::int64_t needed = stage.memory().total(), available = machine_memory_bytes();
  if (needed <= available) return;
  fail_input(
      "this needs {} of memory, but this machine has {}: use shorter or fewer sequences at a time, "
      "or --set run.precision=bf16",
      bytes_to_text(needed), bytes_to_text(available));
}

}  // namespace

void set_positions(Batch& batch, std::int64_t row, std::int64_t length, const ModelConfig& model) {
  std::int32_t* const positions = batch.row(row).positions;
  for (std::int64_t i = 0; i < batch.seq_length; ++i)
    positions[i] = static_cast<std::int32_t>(rotary_row(model, i, length));
}

void check_scaled_length(const ModelConfig& model, std::int64_t length, const std::string& where) {
  if (model.rope_scaling != RopeScaling::dynamic || length <= model.max_positions) return;
  fail_input(
      "{}: model.rope_scaling = \"dynamic\" defines the rotary positions of {} tokens "
      "(model.max_positions) by themselves, but found {}: use shorter texts",
      where, model.max_positions, length);
}

TrainedModel::TrainedModel(const fs::path& path, const std::vector<std::string>& overrides)
    : reader_(path),
      config_(parse_config(reader_.state().config_toml, manifest_name(reader_), overrides)) {
  if (!overrides.empty()) validate(config_.model);
  config_.model.mtp_layers = 0;  // modules that only training uses
}

const Tokenizer& TrainedModel::tokenizer() {
  if (tokenizer_) return *tokenizer_;
  if (config_.data.tokenizer.empty()) {
    fail_input(
        "the run of '{}' has no tokenizer: add --set data.tokenizer=TYPE and its files, for "
        "example --set data.tokenizer_model=FILE",
        reader_.folder().string());
  }
  locate_tokenizer(config_, parse_config(reader_.state().config_toml, manifest_name(reader_)),
                   run_folder(reader_.folder()));
  tokenizer_ = make_tokenizer(config_);
  if (tokenizer_->vocab_size() > config_.model.vocab_size) {
    fail_input(
        "the tokenizer has {}, but the vocabulary of the model in '{}' has {}: set the "
        "files that it was trained with, for example --set data.vocab_file=FILE",
        counted(tokenizer_->vocab_size(), "token"), reader_.folder().string(),
        config_.model.vocab_size);
  }
  if (const std::string note = tokenizer_note(*tokenizer_); !note.empty())
    fmt::print(stderr, "note: {}\n", note);
  return *tokenizer_;
}

std::vector<std::int32_t> TrainedModel::imported_end_ids() const {
  const SpecialTokens tokens = imported_tokens(reader_.state());
  std::vector<std::int32_t> ids(tokens.further_eos.begin(), tokens.further_eos.end());
  if (tokens.eos >= 0) ids.push_back(static_cast<std::int32_t>(tokens.eos));
  return ids;
}

void TrainedModel::require_next_token() const {
  if (family_of(config_.model).architecture == Architecture::decoder) return;
  fail_input(
      "the model of '{}' has model.family = {:?}, which predicts masked tokens, not the next "
      "token: `trireme score` writes its logits, and `trireme train` prints its validation loss",
      reader_.folder().string(), config_.model.family);
}

std::unique_ptr<Stage> TrainedModel::build(BuildOptions options, const Stage* shares) {
  refuse_for_device(config_);
  options.compute = compute_dtype(config_.run.precision);
  options.device = config_.run.device;
  options.all_lengths = true;
  StageOptions stage_options;
  stage_options.device = &device_of(config_.run.device);
  stage_options.training = false;
  stage_options.shares = shares;
  auto stage = std::make_unique<Stage>(build_model(config_.model, options), stage_options);
  check_memory(*stage);
  stage->allocate();
  if (shares) return stage;
  for (const DeviceNote& note : stage->device().notes())
    fmt::print(stderr, "{}: {}\n", note.is_fault ? "warning" : "note", note.text);
  std::vector<TargetSlice> slices;
  const auto& parameters = stage->definition().parameters;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    const Shape& shape = parameters[p].spec.saved_shape;
    slices.push_back({parameters[p].name, options.compute, shape, Region::whole(shape),
                      static_cast<std::byte*>(stage->parameter(p)), &stage->device()});
  }
  reader_.read(slices, {.convert = true, .pool = &ThreadPool::global()});
  const std::int64_t seq = options.seq > 0 ? options.seq : config_.model.seq_length;
  fill_constants(*stage, config_.model, std::max(seq, options.cache_capacity), true);
  return stage;
}

}  // namespace trireme
