// Splits, blends and sizes, put together as Megatron's BlendedMegatronDatasetBuilder does.
#include "data/dataset_builder.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "config/batch_sizes.h"
#include "config/families.h"
#include "data/blend/blended_dataset.h"
#include "data/configured_tokenizer.h"

namespace trireme {
namespace {

// Files up to this size are checked for foreign ids before anything else; it takes milliseconds.
constexpr std::uint64_t kCheckedAtOnceBytes = 64 << 20;

const std::vector<std::string>& paths_of(const DataConfig& config, Split split) {
  if (!config.path.empty()) return config.path;
  return split == Split::train   ? config.train_path
         : split == Split::valid ? config.valid_path
                                 : config.test_path;
}

const std::vector<std::string>& sources_of(const DataConfig& config, Split split) {
  static const std::vector<std::string> none;
  return split == Split::train   ? config.sources
         : split == Split::valid ? config.valid_sources
                                 : none;
}

// Number of samples that the order takes from each dataset.
std::vector<std::int64_t> samples_taken(const BlendOrder& order, std::size_t datasets) {
  std::vector<std::int64_t> taken(datasets, 0);
  for (const std::int16_t d : order.datasets) ++taken[d];
  return taken;
}

std::shared_ptr<const FillInMiddle> fill_in_middle_of(const Config& config) {
  const DataConfig& data = config.data;
  if (data.fim_rate <= 0) return nullptr;
  if (data.tokenizer.empty()) {
    fail_input(
        "data.fim_rate requires data.tokenizer and its files, because documents are split as "
        "text");
  }
  const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer(config);
  const auto id_of = [&](const char* key, const std::string& token) {
    const std::int32_t id = tokenizer->token_id(token);
    if (id < 0) {
      fail_input("{} = \"{}\": the tokenizer has no such token: use a token of its vocabulary", key,
                 token);
    }
    return id;
  };
  const FillInMiddleOptions options{data.fim_rate, data.fim_spm_rate,
                                    id_of("data.fim_prefix_token", data.fim_prefix_token),
                                    id_of("data.fim_middle_token", data.fim_middle_token),
                                    id_of("data.fim_suffix_token", data.fim_suffix_token)};
  return std::make_shared<FillInMiddle>(options, tokenizer);
}

}  // namespace

SampleCounts sample_counts(const Config& config, std::int64_t steps, std::int64_t ranks) {
  const TrainConfig& train = config.train;
  const std::int64_t evaluation = train.eval_iters * evaluation_batch_size(config, ranks);
  SampleCounts counts;
  counts.train = train.samples > 0 ? train.samples : steps * global_batch_size(config, ranks);
  if (train.eval_interval > 0) counts.valid = (steps / train.eval_interval + 1) * evaluation;
  counts.test = evaluation;
  return counts;
}

GptOptions gpt_options(const Config& config, std::int64_t vocab_size, std::int64_t eod_id) {
  GptOptions options;
  options.seq_length = config.model.seq_length;
  options.seed = static_cast<std::uint32_t>(config.run.seed);
  options.vocab_size = vocab_size;
  options.masks = {static_cast<std::int32_t>(eod_id), config.data.reset_position_ids,
                   config.data.reset_attention_mask, config.data.eod_mask_loss};
  options.fill_in_middle = fill_in_middle_of(config);
  options.cache_dir = config.data.cache_dir;
  return options;
}

BertOptions bert_options(const Config& config) {
  const DataConfig& data = config.data;
  if (data.tokenizer.empty()) {
    fail_input(
        "model.family = {:?} requires data.tokenizer and its files, because whole words are "
        "masked",
        config.model.family);
  }
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(config);
  BertOptions options;
  options.seq_length = config.model.seq_length;
  options.seed = static_cast<std::uint32_t>(config.run.seed);
  options.vocabulary = bert_vocabulary(*tokenizer);
  options.sample = {data.mask_prob, config.model.order_head};
  options.short_seq_prob = data.short_seq_prob;
  options.cache_dir = data.cache_dir;
  return options;
}

DatasetBuilder::DatasetBuilder(const Config& config, std::int64_t vocab_size, std::int64_t eod_id)
    : DatasetBuilder(family_of(config.model).samples == SampleKind::masked_words
                         ? DatasetBuilder(config.data, bert_options(config))
                         : DatasetBuilder(config.data, gpt_options(config, vocab_size, eod_id))) {
  if (config.data.sources.empty() && config.data.valid_sources.empty()) return;
  sources_.emplace(config, std::get<GptOptions>(options_).masks);
}

DatasetBuilder::DatasetBuilder(const DataConfig& config, const GptOptions& options)
    : config_(config), options_(options) {
  check_config();
  const MaskOptions& masks = options.masks;
  if (masks.eod_id < 0 &&
      (masks.reset_position_ids || masks.reset_attention_mask || masks.eod_mask_loss)) {
    fail_input(
        "data.reset_position_ids, reset_attention_mask and eod_mask_loss require a tokenizer with "
        "an end-of-document token");
  }
}

DatasetBuilder::DatasetBuilder(const DataConfig& config, const BertOptions& options)
    : config_(config), options_(options) {
  check_config();
}

void DatasetBuilder::check_config() const {
  const bool by_split =
      !config_.train_path.empty() || !config_.valid_path.empty() || !config_.test_path.empty();
  if (config_.path.empty() && !by_split && config_.sources.empty()) {
    fail_input(
        "no data: set data.path (or data.train_path) to a dataset made by `trireme preprocess`, or "
        "data.sources to text files");
  }
  if (!config_.path.empty() && by_split) {
    fail_input("data.path and data.train_path, valid_path or test_path are mutually exclusive");
  }
}

std::int64_t DatasetBuilder::vocab_size() const {
  if (const auto* gpt = std::get_if<GptOptions>(&options_)) return gpt->vocab_size;
  return std::get<BertOptions>(options_).vocabulary.size();
}

std::shared_ptr<const IndexedDataset> DatasetBuilder::open(const std::string& prefix) {
  std::shared_ptr<const IndexedDataset>& file = files_[dataset_prefix(prefix)];
  if (!file) {
    file = std::make_shared<IndexedDataset>(prefix);
    if (file->bin_bytes() <= kCheckedAtOnceBytes) file->check_all_ids(vocab_size());
  }
  return file;
}

std::shared_ptr<const Dataset> DatasetBuilder::build_one(const std::string& prefix, Split split,
                                                         const Share& share, std::int64_t samples) {
  const std::shared_ptr<const IndexedDataset> data = open(prefix);
  const bool gpt = std::holds_alternative<GptOptions>(options_);
  const std::int64_t count = gpt ? data->sequences() : data->documents();
  constexpr std::int64_t few_documents = 20;
  const Range range = range_of(share, count);
  if (range.size() == 0) {
    fail_input(
        "the {} split of '{}' is empty: data.split \"{}\" of {} leaves it no document; give it a "
        "larger share or the weight 0{}",
        name_of(split), data->prefix(), config_.split, counted(count, "document"),
        count > few_documents ? ""
                              : ", or split plain text into more documents (`trireme preprocess "
                                "--documents paragraph` or `line`)");
  }
  const auto make = [&]<class Kind>(auto options) -> std::shared_ptr<const Dataset> {
    if (options.cache_dir.empty()) {
      options.cache_dir = fs::path(data->prefix()).parent_path() / ".trireme-cache";
    }
    return std::make_shared<Kind>(data, range, samples, options);
  };
  try {
    return gpt ? make.operator()<GptDataset>(std::get<GptOptions>(options_))
               : make.operator()<BertDataset>(std::get<BertOptions>(options_));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("the {} split of '{}': {}", name_of(split),
                                          data->prefix(), error.what()));
  }
}

std::vector<std::shared_ptr<const Dataset>> DatasetBuilder::build_all(
    const std::vector<std::string>& prefixes, Split split, const Share& share,
    const std::vector<std::int64_t>& samples) {
  for (const std::string& prefix : prefixes) open(prefix);
  std::vector<std::shared_ptr<const Dataset>> datasets(prefixes.size());
  // A pool of its own: building uses the global one, and the long part, the shuffles, is serial.
  ThreadPool pool(std::min(static_cast<int>(prefixes.size()), ThreadPool::global().size()));
  pool.run(static_cast<std::int64_t>(prefixes.size()), [&](std::int64_t d, int) {
    datasets[d] = build_one(prefixes[d], split, share, samples[d]);
  });
  return datasets;
}

std::shared_ptr<const Dataset> DatasetBuilder::build_weighted(const BlendSpec& blend, Split split,
                                                              const Share& share,
                                                              std::int64_t samples) {
  const std::vector<double> weights = normalized(blend.weights);
  std::int64_t size = 0;
  std::vector<std::int64_t> supply;
  for (const double weight : weights) {
    size += blend_share(samples, weight);
    supply.push_back(blend_supply(samples, weight));
  }
  BlendOrder order = build_blend_order(weights, size);
  std::vector<std::shared_ptr<const Dataset>> datasets =
      build_all(blend.prefixes, split, share, supply);
  const std::vector<std::int64_t> taken = samples_taken(order, weights.size());
  for (std::size_t d = 0; d < weights.size(); ++d) {
    // With many datasets half a percent more may be too little; upstream stops there.
    if (datasets[d]->size() < taken[d]) {
      datasets[d] = build_one(blend.prefixes[d], split, share, taken[d]);
    }
  }
  const std::uint64_t key = blend_order_key(weights, size);
  return std::make_shared<BlendedDataset>(std::move(datasets), std::move(order), key);
}

std::shared_ptr<const Dataset> DatasetBuilder::build_by_size(const BlendSpec& blend, Split split,
                                                             const Share& share,
                                                             std::int64_t samples) {
  std::vector<std::shared_ptr<const Dataset>> datasets =
      build_all(blend.prefixes, split, share, std::vector<std::int64_t>(blend.prefixes.size(), -1));
  std::vector<double> weights;
  std::int64_t total = 0;
  for (std::size_t d = 0; d < datasets.size(); ++d) {
    const std::int64_t size = datasets[d]->size();
    if (size == 0) {
      fail_input("the {} split of '{}' has too few tokens for one sample of {}", name_of(split),
                 blend.prefixes[d], datasets[d]->seq_length());
    }
    weights.push_back(static_cast<double>(size));
    total += size;
  }
  if (total < samples) {
    fail_input(
        "the {} split needs {}, but one epoch of the {} has only {}: give them weights (weight "
        "path weight path ...) so that they are repeated",
        name_of(split), counted(samples, "sample"), counted(datasets.size(), "dataset"), total);
  }
  const std::uint64_t key = blend_order_key(weights, samples);
  return std::make_shared<BlendedDataset>(std::move(datasets), build_blend_order(weights, samples),
                                          key);
}

void DatasetBuilder::check_files(Split split) {
  const std::vector<std::string>& paths = paths_of(config_, split);
  if (!config_.path.empty() || paths.empty()) return;
  for (const std::string& prefix : parse_blend(paths).prefixes) open(prefix);
}

std::shared_ptr<const Dataset> DatasetBuilder::build(Split split, std::int64_t samples) {
  const std::vector<std::string>& sources = sources_of(config_, split);
  if (!sources.empty()) {
    TRIREME_CHECK(sources_);
    return sources_->build(split == Split::train ? "data.sources" : "data.valid_sources", sources,
                           samples);
  }
  const std::vector<std::string>& paths = paths_of(config_, split);
  if (paths.empty()) return nullptr;
  std::optional<Share> share = Share{};
  if (!config_.path.empty()) share = parse_split(config_.split)[static_cast<std::size_t>(split)];
  if (!share) return nullptr;
  const BlendSpec blend = parse_blend(paths);
  // A single dataset of its own split needs no blend, weight or not.
  const bool single = blend.prefixes.size() == 1 && (blend.weights.empty() || config_.path.empty());
  if (single) return build_one(blend.prefixes[0], split, *share, samples);
  return blend.weights.empty() ? build_by_size(blend, split, *share, samples)
                               : build_weighted(blend, split, *share, samples);
}

}  // namespace trireme
