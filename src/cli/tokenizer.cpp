// `trireme tokenizer`: trains a vocabulary, encodes texts to ids and decodes ids to texts.
#include <fmt/ranges.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/foreign_bytes.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/json_ids.h"
#include "cli/tokenizer_flags.h"
#include "tokenizer/bpe/bpe_trainer.h"
#include "tokenizer/jsonl.h"
#include "tokenizer/utf8.h"

namespace trireme::cli {
namespace {

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    fail("cannot write to standard output");
  }
}

// "-" is standard input.
std::string read_input(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::string content = read_file(file);
  refuse_unless_text(file, content);
  return content;
}

struct TrainOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::int64_t vocab_size = 0;
  bool jsonl = false;
  std::string key = "text";
  bool as_json = false;
};

void train(const TrainOptions& options) {
  PieceCounts counts;
  for (const std::string& input : options.inputs) {
    counts.add(options.jsonl ? count_jsonl_file(input, options.key) : count_text_file(input));
  }
  const TrainedBpe trained = train_bpe(counts, options.vocab_size);
  stoppable([&] { write_gpt2_files(trained, options.output); });
  const std::size_t size = trained.tokens.size() + 1;
  if (options.as_json) {
    const nlohmann::json figures = {{"vocab_size", size},
                                    {"merges", trained.merges.size()},
                                    {"pieces", counts.total()},
                                    {"distinct_pieces", counts.sorted().size()},
                                    {"vocab_file", options.output + "/vocab.json"},
                                    {"merge_file", options.output + "/merges.txt"}};
    print(figures.dump() + "\n");
    return;
  }
  print(fmt::format("{} from {}: {}/vocab.json, {}/merges.txt\n", counted(size, "token"),
                    counted(counts.total(), "piece"), options.output, options.output));
  if (static_cast<std::int64_t>(size) < options.vocab_size) {
    print(fmt::format(
        "note: fewer than the requested {} tokens, because no other pair of tokens occurs "
        "twice in this text\n",
        options.vocab_size));
  }
}

struct EncodeOptions {
  TokenizerConfig tokenizer;
  std::string text, file, jsonl;
  std::string key = "text";
  std::string pair, pair_key;
  bool special = false;
  bool as_json = false;
};

std::string encode_line(const Tokenizer& tokenizer, const EncodeOptions& options,
                        std::string_view text, std::optional<std::string_view> pair) {
  Encoding encoding;
  if (options.special || pair) {
    encoding = tokenizer.encode_with_special(text, pair);
  } else {
    tokenizer.encode(text, encoding.ids);
    encoding.type_ids.assign(encoding.ids.size(), 0);
  }
  if (!options.as_json) return fmt::format("[{}]\n", fmt::join(encoding.ids, ", "));
  return nlohmann::json{{"ids", encoding.ids}, {"type_ids", encoding.type_ids}}.dump() + "\n";
}

void encode(const EncodeOptions& options, bool has_text, bool has_pair) {
  const auto tokenizer = make_tokenizer(options.tokenizer);
  if (options.jsonl.empty()) {
    const std::string text = has_text ? options.text : read_input(options.file);
    print(encode_line(*tokenizer, options, text,
                      has_pair ? std::optional<std::string_view>(options.pair) : std::nullopt));
    return;
  }
  const std::string lines = read_input(options.jsonl);
  for_each_line(lines, [&](std::string_view line, std::size_t number) {
    const std::string text = json_line_text(line, options.key, options.jsonl, number + 1);
    std::optional<std::string> pair;
    if (!options.pair_key.empty()) {
      pair = json_line_text(line, options.pair_key, options.jsonl, number + 1);
    }
    print(encode_line(*tokenizer, options, text, pair));
  });
}

struct DecodeOptions {
  TokenizerConfig tokenizer;
  std::string ids, file;
  std::string jsonl;
  std::string key = "text";
  bool skip_special = false;
};

// Parses a line "[1, 2, 3]".
std::vector<std::int32_t> parse_ids(std::string_view line, const std::string& where) {
  auto ids = json_ids(nlohmann::json::parse(line, nullptr, false));
  if (!ids) fail_input("{} is not a JSON array of ids such as [1, 2, 3]", where);
  return std::move(*ids);
}

void decode(const DecodeOptions& options) {
  const auto tokenizer = make_tokenizer(options.tokenizer);
  if (options.jsonl.empty()) {
    const bool from_file = !options.file.empty();
    const std::string ids = from_file ? read_input(options.file) : options.ids;
    const std::string where = from_file ? fmt::format("'{}'", options.file) : "--ids";
    print(tokenizer->decode(parse_ids(ids, where), options.skip_special));
    return;
  }
  const std::string lines = read_input(options.jsonl);
  for_each_line(lines, [&](std::string_view line, std::size_t number) {
    const auto ids = parse_ids(line, fmt::format("'{}' line {}", options.jsonl, number + 1));
    const std::string text = tokenizer->decode(ids, options.skip_special);
    // ASCII only, since some line readers also split at U+0085 or U+2028.
    print(nlohmann::json{{options.key, to_valid_utf8(text)}}.dump(-1, ' ', true) + "\n");
  });
}

void add_vocabulary_training(CLI::App& parent) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = parent.add_subcommand(
      "train", "Train a byte-level BPE tokenizer and write vocab.json and merges.txt");
  command->add_option("--input", options->inputs, "Text files to learn from")->required();
  command
      ->add_option("--vocab-size", options->vocab_size, "Vocabulary size, including <|endoftext|>")
      ->required();
  command->add_option("--output", options->output, "Folder to write to")->required();
  command->add_flag("--jsonl", options->jsonl, "The inputs have one JSON object per line");
  command->add_option("--key", options->key, "With --jsonl: key of the text")
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print the figures as JSON");
  command->callback([options] { train(*options); });
}

void add_encode(CLI::App& parent) {
  auto options = std::make_shared<EncodeOptions>();
  CLI::App* command = parent.add_subcommand(
      "encode", "Print the ids of each text as a JSON array on a line of its own");
  add_tokenizer_flags(*command, options->tokenizer);
  auto* source = command->add_option_group("text");
  auto* text = source->add_option("--text", options->text, "The text itself");
  source->add_option("--file", options->file, "File that contains one text (-: standard input)");
  auto* jsonl = source->add_option("--jsonl", options->jsonl,
                                   "File with one JSON object per line (-: standard input)");
  source->require_option(1);
  command->add_option("--key", options->key, "With --jsonl: key of the text")
      ->capture_default_str();
  auto* pair = command->add_option("--pair", options->pair,
                                   "A second text, encoded together with the first as a pair");
  command->add_option("--pair-key", options->pair_key, "With --jsonl: key of the second text")
      ->needs(jsonl)
      ->excludes(pair);
  command->add_flag("--add-special", options->special,
                    "Add the special tokens around the text ([CLS], BOS ...); pairs always have "
                    "them");
  command->add_flag("--json", options->as_json, "Print {\"ids\": [...], \"type_ids\": [...]}");
  command->callback([=] { encode(*options, text->count() > 0, pair->count() > 0); });
}

void add_decode(CLI::App& parent) {
  auto options = std::make_shared<DecodeOptions>();
  CLI::App* command = parent.add_subcommand(
      "decode", "Print the text of ids; of --jsonl, one JSON object per line");
  add_tokenizer_flags(*command, options->tokenizer);
  auto* source = command->add_option_group("ids");
  source->add_option("--ids", options->ids, "A JSON array, e.g. \"[1, 2, 3]\"");
  source->add_option("--file", options->file, "File with one JSON array (-: standard input)");
  source->add_option("--jsonl", options->jsonl,
                     "File with one JSON array per line (-: standard input)");
  source->require_option(1);
  command->add_option("--key", options->key, "With --jsonl: key of the text")
      ->capture_default_str();
  command->add_flag("--skip-special", options->skip_special, "Omit special tokens");
  command->callback([options] { decode(*options); });
}

}  // namespace

void add_tokenizer(CLI::App& app) {
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Train tokenizers, encode and decode");
  tokenizer->require_subcommand(1);
  add_vocabulary_training(*tokenizer);
  add_encode(*tokenizer);
  add_decode(*tokenizer);
}

}  // namespace trireme::cli
