// `trireme data`: merges and lists indexed token files, and lists samples of a configuration.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "config/families.h"
#include "data/dataset_builder.h"
#include "data/indexed_writer.h"
#include "tokenizer/utf8.h"
#include "train/schedule/batch_schedule.h"

namespace trireme::cli {
namespace {

struct MergeOptions {
  std::vector<std::string> inputs;
  std::string output;
  bool as_json = false;
};

void merge(const MergeOptions& options) {
  const std::string output = dataset_prefix(options.output);
  std::unique_ptr<IndexedDatasetWriter> writer;
  for (const std::string& input : options.inputs) {
    const IndexedDataset data(input);
    if (!writer) writer = std::make_unique<IndexedDatasetWriter>(output, data.token_type());
    writer->add_dataset(data);
  }
  writer->finish();
  if (options.as_json) {
    const nlohmann::json figures = {{"prefix", output},
                                    {"documents", writer->documents()},
                                    {"sequences", writer->sequences()},
                                    {"tokens", writer->tokens()}};
    fmt::print("{}\n", figures.dump());
    return;
  }
  fmt::print("{}.bin, .idx: {}, {}, {}\n", output, counted(writer->documents(), "document"),
             counted(writer->sequences(), "sequence"), counted(writer->tokens(), "token"));
}

struct ShowOptions {
  std::string prefix;
  std::int64_t document = -1;
  bool decode = false;
  TokenizerConfig tokenizer;
  bool as_json = false;
};

nlohmann::json figures_of(const IndexedDataset& data) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max(), longest = 0;
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    shortest = std::min(shortest, data.length(i));
    longest = std::max(longest, data.length(i));
  }
  std::int64_t empty = 0;
  for (std::int64_t d = 0; d < data.documents(); ++d) {
    empty += data.document_start(d) == data.document_start(d + 1);
  }
  return {
      {"prefix", data.prefix()},       {"token_type", name_of(data.token_type())},
      {"documents", data.documents()}, {"empty_documents", empty},
      {"sequences", data.sequences()}, {"tokens", data.tokens()},
      {"bin_bytes", data.bin_bytes()}, {"shortest_sequence", data.sequences() > 0 ? shortest : 0},
      {"longest_sequence", longest}};
}

void show_file(const IndexedDataset& data, bool as_json) {
  const nlohmann::json figures = figures_of(data);
  if (as_json) {
    fmt::print("{}\n", figures.dump());
    return;
  }
  for (const auto& [name, value] : figures.items()) {
    fmt::print("{:18} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
  }
}

std::vector<std::int32_t> read_sequence(const IndexedDataset& data, std::int64_t i) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(data.length(i)));
  data.read(i, 0, data.length(i), ids.data());
  return ids;
}

void show_document(const IndexedDataset& data, const ShowOptions& options) {
  if (options.document < 0 || options.document >= data.documents()) {
    fail_input("'{}' has no document {}: it has {}, counted from 0", data.prefix(),
               options.document, counted(data.documents(), "document"));
  }
  std::unique_ptr<Tokenizer> tokenizer;
  if (options.decode) tokenizer = make_tokenizer(options.tokenizer);
  for (std::int64_t i = data.document_start(options.document);
       i < data.document_start(options.document + 1); ++i) {
    const std::vector<std::int32_t> ids = read_sequence(data, i);
    const std::string text = tokenizer ? to_valid_utf8(tokenizer->decode(ids)) : std::string();
    if (options.as_json) {
      nlohmann::json line = {{"document", options.document}, {"sequence", i}, {"ids", ids}};
      if (tokenizer) line["text"] = text;
      fmt::print("{}\n", line.dump());
    } else if (tokenizer) {
      fmt::print("{}\n", text);
    } else {
      fmt::print("{}\n", fmt::join(ids, " "));
    }
  }
}

void show(const ShowOptions& options) {
  const IndexedDataset data(options.prefix);
  if (options.decode && options.tokenizer.type.empty()) {
    fail_input("--decode needs a tokenizer: give --tokenizer-type and its files");
  }
  if (options.document < 0 && !options.decode) return show_file(data, options.as_json);
  ShowOptions one = options;
  one.document = std::max<std::int64_t>(one.document, 0);
  show_document(data, one);
}

struct SamplesOptions {
  std::string file;
  std::vector<std::string> overrides;
  std::int64_t first = 10;
  std::int64_t skip = 0;
  std::int64_t world_size = 0;
  Split split = Split::train;
  bool tokens = false, as_json = false;
  bool masked = false;  // number of samples; the configuration has it
};

std::shared_ptr<const Dataset> dataset_of(SamplesOptions& options) {
  Config config = load_config(options.file, options.overrides);
  // Shows tokens as they are in the files.
  config.data.fim_rate = 0;
  config.data.reset_position_ids = config.data.reset_attention_mask = false;
  config.data.eod_mask_loss = false;
  if (config.model.seq_length <= 0) fail_input("'{}': model.seq_length is not set", options.file);
  const ParallelConfig& p = config.parallel;
  const std::int64_t ranks = options.world_size > 0 ? options.world_size : p.tp * p.pp * p.cp;
  const BatchSchedule batches(config, ranks);
  const std::int64_t steps =
      config.train.iters > 0 ? config.train.iters : batches.steps(config.train.samples);
  const SampleCounts counts = sample_counts(config, steps, ranks);
  // Sample order does not depend on the vocabulary, so the vocabulary need not be known.
  DatasetBuilder builder(config, std::numeric_limits<std::int32_t>::max(), -1);
  options.masked = family_of(config.model).samples == SampleKind::masked_words;
  auto dataset = builder.build(options.split, counts.of(options.split));
  if (!dataset) {
    fail_input("'{}': the {} split is empty: check data.split and data.path", options.file,
               name_of(options.split));
  }
  return dataset;
}

// Tokens of a sample: its input, followed by its last target. For BERT: its input after masking,
// without padding.
std::vector<std::int32_t> tokens_of(const Dataset& dataset, std::int64_t index, bool masked) {
  Batch batch(1, dataset.seq_length());
  dataset.fill(index, batch.row(0));
  std::vector<std::int32_t> tokens = std::move(batch.tokens);
  if (masked) {
    tokens.resize(static_cast<std::size_t>(batch.lengths[0]));
  } else {
    tokens.push_back(batch.targets.back());
  }
  return tokens;
}

void print_sample(const Dataset& dataset, std::int64_t index, const SamplesOptions& options) {
  const std::vector<SamplePart> parts = dataset.parts(index);
  if (options.as_json) {
    nlohmann::json documents = nlohmann::json::array();
    for (const SamplePart& part : parts) {
      if (part.group < 0) {
        documents.push_back({part.sequence, part.first, part.last});
      } else {
        documents.push_back({*part.prefix, part.group, part.sequence, part.first, part.last});
      }
    }
    if (!options.tokens) {
      fmt::print("{}\n", documents.dump());
      return;
    }
    const nlohmann::json line = {{"sample", index},
                                 {"dataset", *parts.front().prefix},
                                 {"documents", documents},
                                 {"tokens", tokens_of(dataset, index, options.masked)}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print("sample {} of {}:", index, *parts.front().prefix);
  const std::string* file = parts.front().prefix;
  for (const SamplePart& part : parts) {
    if (part.prefix != file) fmt::print("  of {}:", *part.prefix);
    file = part.prefix;
    if (part.group >= 0) fmt::print("  {}", part.group);
    fmt::print("{}{}[{}..{}]", part.group < 0 ? "  " : ".", part.sequence, part.first, part.last);
  }
  fmt::print("\n");
  if (options.tokens)
    fmt::print("  {}\n", fmt::join(tokens_of(dataset, index, options.masked), " "));
}

void samples(SamplesOptions options) {
  const std::shared_ptr<const Dataset> dataset = dataset_of(options);
  if (options.skip >= dataset->size()) {
    fail_input("--skip {}: the {} split has {}", options.skip, name_of(options.split),
               counted(dataset->size(), "sample"));
  }
  const std::int64_t end = options.skip + std::min(options.first, dataset->size() - options.skip);
  for (std::int64_t i = options.skip; i < end; ++i) print_sample(*dataset, i, options);
}

void add_merge(CLI::App& parent) {
  auto options = std::make_shared<MergeOptions>();
  CLI::App* command =
      parent.add_subcommand("merge", "Join indexed token files, with documents in the given order");
  command
      ->add_option("prefix", options->inputs, "Datasets to join: their paths without .bin and .idx")
      ->required();
  command->add_option("--output-prefix", options->output, "Prefix of the files to write")
      ->required();
  command->add_flag("--json", options->as_json, "Print the figures as JSON");
  command->callback([options] { stoppable([&] { merge(*options); }); });
}

void add_show(CLI::App& parent) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = parent.add_subcommand(
      "show", "Print the figures of an indexed token file, or one of its documents");
  command->add_option("prefix", options->prefix, "Dataset: its path without .bin and .idx")
      ->required();
  command
      ->add_option("--document", options->document,
                   "Print the token ids of this document; the first is 0")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--decode", options->decode,
                    "Print the text instead (of document 0 unless --document names another)");
  command->add_flag("--json", options->as_json, "Print JSON, one line per sequence");
  add_tokenizer_flags(*command, options->tokenizer);
  command->get_option("--tokenizer-type")->required(false);
  command->callback([options] { show(*options); });
}

void add_rebuild_index(CLI::App& parent) {
  auto prefix = std::make_shared<std::string>();
  CLI::App* command = parent.add_subcommand(
      "rebuild-index",
      "Rewrite the .idx of a pair whose offsets overflowed 32 bits, as in merges by Megatron-LM "
      "with NumPy 2");
  command->add_option("prefix", *prefix, "Dataset: its path without .bin and .idx")->required();
  command->callback([prefix] {
    const std::int64_t repaired = IndexedDataset::rebuild_index(*prefix);
    if (repaired == 0) {
      fmt::print("{}.idx: all offsets are correct, nothing was written\n", dataset_prefix(*prefix));
    } else {
      fmt::print("{}.idx: rewritten, because the offsets of {} were wrong\n",
                 dataset_prefix(*prefix), counted(repaired, "sequence"));
    }
  });
}

void add_samples(CLI::App& parent) {
  auto options = std::make_shared<SamplesOptions>();
  CLI::App* command = parent.add_subcommand(
      "samples", "Print the documents and token ranges of each sample, in training order");
  command->add_option("file", options->file, "Configuration of the run (TOML)")->required();
  command->add_option("overrides", options->overrides, "section.key=value, applied in order");
  command->add_option("--first", options->first, "Number of samples to print")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--skip", options->skip, "Number of samples to skip first")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--split",
          [options](const std::string& name) {
            for (const Split split : {Split::train, Split::valid, Split::test}) {
              if (name == name_of(split)) options->split = split;
            }
          },
          "Split to show")
      ->check(CLI::IsMember({"train", "valid", "test"}))
      ->default_str("train");
  command
      ->add_option(
          "--world-size", options->world_size,
          "Number of ranks of the run, which can determine the batch size (default: tp x pp x cp)")
      ->check(CLI::PositiveNumber);
  command->add_flag("--tokens", options->tokens, "Also print the token ids");
  command->add_flag(
      "--json", options->as_json,
      "Print a line per sample: [[document, first, last], ...], both ends included (of sources "
      "[file, row group, row, first, last]); with --tokens an object with \"documents\" and "
      "\"tokens\"");
  command->callback([options] { samples(*options); });
}

}  // namespace

void add_data(CLI::App& app) {
  CLI::App* data =
      app.add_subcommand("data", "Join and show indexed token files; show training samples");
  data->require_subcommand(1);
  add_merge(*data);
  add_show(*data);
  add_rebuild_index(*data);
  add_samples(*data);
}

}  // namespace trireme::cli
