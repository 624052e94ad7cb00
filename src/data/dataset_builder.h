// Builds the datasets of the splits from a configuration.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "config/config.h"
#include "data/bert/bert_dataset.h"
#include "data/blend/blend.h"
#include "data/dataset.h"
#include "data/gpt/gpt_dataset.h"
#include "data/split.h"
#include "data/stream/source_builder.h"

namespace trireme {

// Number of samples that each split must provide in a run. They determine the order, so they follow
// Megatron: valid has one evaluation per interval plus one, test has a single one.
struct SampleCounts {
  std::int64_t train = 0, valid = 0, test = 0;
  std::int64_t of(Split split) const {
    return split == Split::train ? train : split == Split::valid ? valid : test;
  }
};
// `steps` optimizer steps on `ranks` ranks; the batch is the final one of a ramp-up.
SampleCounts sample_counts(const Config& config, std::int64_t steps, std::int64_t ranks);

// Options of a GPT dataset from the configuration. `eod_id` is -1 if the tokenizer has none. With
// data.fim_rate the tokenizer is loaded; throws bad_input if it lacks the tokens for that.
GptOptions gpt_options(const Config& config, std::int64_t vocab_size, std::int64_t eod_id);

// Options of a BERT dataset; loads the tokenizer. Throws bad_input if the configuration names none,
// or one without [CLS], [SEP] and [MASK].
BertOptions bert_options(const Config& config);

class DatasetBuilder {
 public:
  // Builds what the model's family reads. Throws bad_input for a configuration that names no data
  // or contradicts itself.
  DatasetBuilder(const Config& config, std::int64_t vocab_size, std::int64_t eod_id);
  // The options say what is built: GptDataset, whose splits count sequences, or BertDataset, whose
  // splits count documents.
  DatasetBuilder(const DataConfig& config, const GptOptions& options);
  DatasetBuilder(const DataConfig& config, const BertOptions& options);

  // For one process of a run that reads data.sources: see SourceBuilder.
  void write_places() {
    if (sources_) sources_->write_places();
  }

  // Notes about data.sources, a line each.
  std::vector<std::string> notes() const {
    return sources_ ? sources_->notes() : std::vector<std::string>();
  }

  // The dataset of a split with at least `samples` samples, or null if the configuration gives that
  // split no data (weight 0 or no path). Throws bad_input for invalid files, for a split without
  // documents, for ids outside the vocabulary in files that are small enough to be read in full,
  // and if datasets blended by size hold too little.
  std::shared_ptr<const Dataset> build(Split split, std::int64_t samples);

  // Opens only the files of that split. Throws bad_input if one of them is missing or invalid.
  void check_files(Split split);

 private:
  std::shared_ptr<const IndexedDataset> open(const std::string& prefix);
  void check_config() const;
  std::int64_t vocab_size() const;
  std::shared_ptr<const Dataset> build_one(const std::string& prefix, Split split,
                                           const Share& share, std::int64_t samples);
  // build_one for several files together; samples[d] for file d.
  std::vector<std::shared_ptr<const Dataset>> build_all(const std::vector<std::string>& prefixes,
                                                        Split split, const Share& share,
                                                        const std::vector<std::int64_t>& samples);
  std::shared_ptr<const Dataset> build_weighted(const BlendSpec& blend, Split split,
                                                const Share& share, std::int64_t samples);
  std::shared_ptr<const Dataset> build_by_size(const BlendSpec& blend, Split split,
                                               const Share& share, std::int64_t samples);

  DataConfig config_;
  std::variant<GptOptions, BertOptions> options_;
  std::optional<SourceBuilder> sources_;  // where the configuration names any
  std::map<std::string, std::shared_ptr<const IndexedDataset>> files_;
};

}  // namespace trireme
