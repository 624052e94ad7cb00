// Patterns, weights and columns to datasets.
#include "data/stream/source_builder.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/counted.h"
#include "base/error.h"
#include "data/blend/blend.h"
#include "data/blend/blended_dataset.h"
#include "data/configured_tokenizer.h"
#include "data/stream/source_dataset.h"

namespace trireme {
namespace {

DocumentForm text_form(DocumentUnit unit) {
  switch (unit) {
    case DocumentUnit::file:
      return DocumentForm::file;
    case DocumentUnit::paragraph:
      return DocumentForm::paragraphs;
    case DocumentUnit::line:
      return DocumentForm::line;
  }
  fail("internal error: no form of text for {}", unit);
}

// The column of each source.
std::vector<std::string> columns_of(const std::vector<std::string>& keys, const std::string& key,
                                    std::size_t sources) {
  if (keys.size() == 1) return std::vector<std::string>(sources, keys[0]);
  if (keys.size() == sources) return keys;
  fail_input(
      "data.source_keys has {}, but {} has {}: expected one key for all sources or one for each "
      "(sources without weights count as one)",
      counted(keys.size(), "key"), key, counted(sources, "source"));
}

}  // namespace

SourceBuilder::SourceBuilder(const Config& config, const MaskOptions& masks)
    : config_(config), masks_(masks), tokenizer_(make_tokenizer(config)) {}

void SourceBuilder::take_notes(const Corpus& corpus) {
  std::ranges::move(lines_about(corpus.passed_over()), std::back_inserter(notes_));
  std::ranges::copy(corpus.doubts(), std::back_inserter(notes_));
  for (const std::string& file : corpus.large_documents()) {
    notes_.push_back(fmt::format(
        "'{}' is a single document; data.source_documents = \"paragraph\" or \"line\" splits it "
        "into paragraphs or lines",
        file));
  }
}

std::shared_ptr<const Dataset> SourceBuilder::build_one(const std::vector<std::string>& patterns,
                                                        const std::string& column) {
  const DataConfig& data = config_.data;
  auto corpus = std::make_shared<const Corpus>(
      patterns, CorpusOptions{.key = column,
                              .text = text_form(data.source_documents),
                              .skip_bad_rows = data.skip_bad_rows});
  take_notes(*corpus);
  const StreamOptions options{
      .window = {static_cast<std::uint64_t>(config_.run.seed), data.shuffle_buffer},
      .threads = static_cast<int>(data.tokenizer_threads),
      .places = fs::path(config_.run.dir) / "places",
      .writes = writes_places_};
  return std::make_shared<SourceDataset>(
      std::make_unique<TokenStream>(std::move(corpus), tokenizer_, options),
      config_.model.seq_length, masks_);
}

std::shared_ptr<const Dataset> SourceBuilder::build(const std::string& key,
                                                    const std::vector<std::string>& entries,
                                                    std::int64_t samples) {
  const BlendSpec blend = parse_blend(entries, key);
  const std::vector<std::string>& keys = config_.data.source_keys;
  if (blend.weights.empty()) return build_one(blend.prefixes, columns_of(keys, key, 1)[0]);
  const std::vector<std::string> columns = columns_of(keys, key, blend.prefixes.size());
  std::vector<std::shared_ptr<const Dataset>> datasets;
  for (std::size_t d = 0; d < blend.prefixes.size(); ++d) {
    datasets.push_back(build_one({blend.prefixes[d]}, columns[d]));
  }
  std::int64_t size = 0;
  const std::vector<double> weights = normalized(blend.weights);
  for (const double weight : weights) size += blend_share(samples, weight);
  // The first samples are the same however many follow, so that their number is no part of the key.
  return std::make_shared<BlendedDataset>(std::move(datasets), build_blend_order(weights, size),
                                          blend_order_key(weights, 0));
}

}  // namespace trireme
