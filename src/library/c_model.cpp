// The C interface: trained models.
#include <algorithm>

#include "base/counted.h"
#include "config/families.h"
#include "formats/conversion.h"
#include "importers/folder/formats.h"
#include "library/c_handles.h"

namespace trireme::c {
namespace {

bool is_of_model(const std::string& setting) {
  return setting.starts_with("model.");
}

// Converts another program's folder to a run in a temporary folder.
fs::path converted(trireme_model& model, const fs::path& path) {
  ModelSettings settings;
  std::ranges::copy_if(model.overrides, std::back_inserter(settings), is_of_model);
  std::erase_if(model.overrides, is_of_model);
  const ForeignModel foreign = foreign_format("", path).open(path, settings);
  model.converted.emplace();
  import_model(foreign, model.converted->path() / "run", "the library", &ThreadPool::global());
  return model.converted->path() / "run";
}

Scorer& scorer_of(trireme_model& model, std::int64_t length) {
  if (!model.scorer) {
    model.generator.reset();
    const std::int64_t usual = model.model->config().model.seq_length;
    model.scorer = std::make_unique<Scorer>(*model.model, std::max(usual, length));
  }
  return *model.scorer;
}

Generator& generator_of(trireme_model& model, std::int64_t batch, std::int64_t capacity) {
  if (!model.generator || model.batch != batch || model.capacity < capacity) {
    model.scorer.reset();
    model.generator.reset();
    model.generator = std::make_unique<Generator>(*model.model, batch, capacity);
    model.batch = batch;
    model.capacity = capacity;
  }
  return *model.generator;
}

std::int64_t max_length(const ModelConfig& m) {
  return m.position == PositionEncoding::learned ? m.max_positions : 0;
}

using Sequences = std::vector<std::vector<std::int32_t>>;

Sequences sequences_of(const std::int32_t* ids, const std::int64_t* offsets, std::int64_t count) {
  Sequences sequences;
  for (std::int64_t i = 0; i < count; ++i) {
    if (offsets[i] > offsets[i + 1]) fail_input("offset {} is above the next one", i);
    sequences.emplace_back(ids + offsets[i], ids + offsets[i + 1]);
  }
  return sequences;
}

void give(const Sequences& sequences, std::int32_t** ids, std::int64_t* offsets) {
  offsets[0] = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i)
    offsets[i + 1] = offsets[i] + static_cast<std::int64_t>(sequences[i].size());
  const auto total = static_cast<std::size_t>(offsets[sequences.size()]);
  auto* const all = static_cast<std::int32_t*>(allocate_bytes(total * sizeof(std::int32_t)));
  for (std::size_t i = 0; i < sequences.size(); ++i)
    std::ranges::copy(sequences[i], all + offsets[i]);
  *ids = all;
}

GenerateOptions options_of(trireme_model& model, const trireme_generate_options& given) {
  if (given.size != sizeof(trireme_generate_options))
    fail_input("trireme_generate_options has {}, but this library supports {}",
               counted(given.size, "byte"), sizeof(trireme_generate_options));
  GenerateOptions options;
  options.max_new_tokens = given.max_new_tokens;
  options.seed = given.seed;
  options.sampling = {given.sample != 0, given.temperature, given.top_k, given.top_p,
                      given.repetition_penalty};
  options.stop_ids.assign(given.stop_ids, given.stop_ids + given.stop_count);
  if (given.max_new_tokens < 0) fail_input("max_new_tokens is {}", given.max_new_tokens);
  if (given.stop_at_end) {
    std::ranges::copy(model.model->imported_end_ids(), std::back_inserter(options.stop_ids));
    if (!model.model->config().data.tokenizer.empty()) {
      const std::int32_t eod = model.model->tokenizer().eod_id();
      if (eod >= 0) options.stop_ids.push_back(eod);
    }
  }
  return options;
}

[[noreturn]] void interrupted() {
  throw Error(ExitCode::interrupted, "interrupted");
}

}  // namespace
}  // namespace trireme::c

using namespace trireme::c;

trireme_status trireme_model_open(const char* path, const char* const* overrides, size_t count,
                                  trireme_model** model) {
  return guarded([&] {
    trireme::fs::path folder = text_of(path, "the folder of the model");
    auto made = std::make_unique<trireme_model>();
    made->overrides = texts_of(overrides, count);
    if (!holds_own_checkpoint(folder)) folder = converted(*made, folder);
    made->model = std::make_unique<trireme::TrainedModel>(folder, made->overrides);
    *model = made.release();
  });
}

void trireme_model_close(trireme_model* model) {
  delete model;
}

void trireme_model_info_of(const trireme_model* model, trireme_model_info* info) {
  const trireme::ModelConfig& m = model->model->config().model;
  const bool next = trireme::family_of(m).architecture == trireme::Architecture::decoder;
  *info = {m.vocab_size, m.seq_length, max_length(m), model->model->step(), next ? 1 : 0};
}

trireme_status trireme_model_config(const trireme_model* model, trireme_config** config) {
  return guarded([&] { *config = config_handle(model->model->config()); });
}

trireme_status trireme_model_tokenizer(const trireme_model* model, trireme_tokenizer** tokenizer) {
  return guarded([&] {
    auto made = std::make_unique<trireme_tokenizer>();
    made->of_model =
        std::make_unique<trireme::TrainedModel>(model->model->folder(), model->overrides);
    made->tokenizer = &made->of_model->tokenizer();
    *tokenizer = made.release();
  });
}

trireme_status trireme_model_logits(trireme_model* model, const int32_t* ids, int64_t count,
                                    const int32_t* token_types, float* logits) {
  return guarded([&] {
    trireme::ScoredSequence sequence{{ids, ids + count}, {}};
    if (token_types) sequence.token_types.assign(token_types, token_types + count);
    check_sequence(sequence, model->model->config().model, "the sequence");
    trireme::Scorer& scorer = scorer_of(*model, count);
    scorer.check(sequence, "the sequence");
    scorer.run(sequence);
    scorer.rows(0, [&](std::int64_t position, std::span<const float> row) {
      std::ranges::copy(row, logits + position * static_cast<std::int64_t>(row.size()));
    });
  });
}

trireme_status trireme_model_log_likelihoods(trireme_model* model, const int32_t* ids,
                                             const int64_t* offsets, const int64_t* given,
                                             int64_t count, double* sums, uint8_t* greedy,
                                             int32_t (*progress)(void* user, int64_t done),
                                             void* user) {
  return guarded([&] {
    model->model->require_next_token();
    const Sequences sequences = sequences_of(ids, offsets, count);
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto length = static_cast<std::int64_t>(sequences[i].size());
      longest = std::max(longest, length);
      if (given[i] < 1 || given[i] > length)
        trireme::fail_input("sequence {} has {}, and {} are given as the prompt: expected 1 to {}",
                            i, trireme::counted(length, "token"), given[i], length);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const trireme::Likelihood found =
          scorer_of(*model, longest)
              .likelihood(sequences[i], given[i], fmt::format("sequence {}", i));
      sums[i] = found.log;
      greedy[i] = found.greedy ? 1 : 0;
      if (progress && progress(user, i + 1) != 0) interrupted();
    }
  });
}

void trireme_generate_defaults(trireme_generate_options* options) {
  const trireme::GenerateOptions usual;
  *options = {};
  options->size = sizeof *options;
  options->max_new_tokens = usual.max_new_tokens;
  options->sample = 1;
  options->temperature = usual.sampling.temperature;
  options->top_k = usual.sampling.top_k;
  options->top_p = usual.sampling.top_p;
  options->repetition_penalty = usual.sampling.repetition_penalty;
  options->seed = usual.seed;
  options->stop_at_end = 1;
}

trireme_status trireme_model_generate(trireme_model* model, const int32_t* ids,
                                      const int64_t* offsets, int64_t count,
                                      const trireme_generate_options* options, int32_t** out_ids,
                                      int64_t* out_offsets) {
  return guarded([&] {
    model->model->require_next_token();
    const Sequences prompts = sequences_of(ids, offsets, count);
    if (prompts.empty()) trireme::fail_input("there is no prompt");
    const trireme::GenerateOptions how = options_of(*model, *options);
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      check_sequence({prompts[i], {}}, model->model->config().model, fmt::format("prompt {}", i));
      longest = std::max(longest, static_cast<std::int64_t>(prompts[i].size()));
    }
    trireme::Generator& generator = generator_of(*model, count, longest + options->max_new_tokens);
    give(generator.generate(prompts, how,
                            [&](std::size_t sequence, std::int32_t id) {
                              if (options->on_token &&
                                  options->on_token(options->user,
                                                    static_cast<std::int64_t>(sequence), id) != 0)
                                interrupted();
                            }),
         out_ids, out_offsets);
  });
}
