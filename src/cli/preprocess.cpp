// `trireme preprocess`: converts text files to indexed token files.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/counted.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "data/preprocess.h"

namespace trireme::cli {
namespace {

struct PreprocessCommand {
  TokenizerConfig tokenizer;
  PreprocessOptions work;
  std::int64_t log_interval = 0;
  bool as_json = false;
  // Megatron flags without a meaning here.
  std::string ignored_text;
  std::int64_t ignored_number = 0;
  bool ignored_flag = false;
};

double megabytes_per_second(std::int64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / 1e6 / seconds : 0;
}

// On a terminal an updating line, otherwise one line per --log-interval documents.
class ProgressLine {
 public:
  explicit ProgressLine(std::int64_t interval) : interval_(interval) {}
  ~ProgressLine() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  void show(const PreprocessProgress& now) {
    const double speed = megabytes_per_second(now.text_bytes, now.seconds);
    if (terminal_) {
      const double share = now.total_file_bytes > 0 ? 100.0 * static_cast<double>(now.file_bytes) /
                                                          static_cast<double>(now.total_file_bytes)
                                                    : 0;
      fmt::print(stderr, "\r\033[K{:5.1f} %  {}  {:.1f} MB/s", share,
                 counted(now.documents, "document"), speed);
      std::fflush(stderr);
      shown_ = true;
    } else if (interval_ > 0 && now.documents >= next_) {
      fmt::print(stderr, "processed {} ({:.0f} documents/s, {:.1f} MB/s)\n",
                 counted(now.documents, "document"),
                 static_cast<double>(now.documents) / now.seconds, speed);
      next_ = now.documents + interval_;
    }
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  const std::int64_t interval_;
  std::int64_t next_ = 1;
  bool shown_ = false;
};

void print_json(const PreprocessResult& result) {
  nlohmann::json outputs = nlohmann::json::array();
  std::int64_t tokens = 0;
  for (const PreprocessOutput& output : result.outputs) {
    outputs.push_back({{"key", output.key},
                       {"prefix", output.prefix},
                       {"documents", output.documents},
                       {"sequences", output.sequences},
                       {"tokens", output.tokens}});
    tokens += output.tokens;
  }
  nlohmann::json passed_over = nlohmann::json::array();
  for (const PassedOver& one : result.passed_over) {
    passed_over.push_back({{"path", one.path}, {"reason", one.why}});
  }
  const nlohmann::json figures = {
      {"documents", result.documents},
      {"tokens", tokens},
      {"bytes", result.text_bytes},
      {"skipped_lines", result.bad_lines},
      {"passed_over", passed_over},
      {"doubts", result.doubts},
      {"repaired_documents", result.repaired_documents},
      {"seconds", result.seconds},
      {"mb_per_second", megabytes_per_second(result.text_bytes, result.seconds)},
      {"outputs", outputs}};
  fmt::print("{}\n", figures.dump());
}

void print_text(const PreprocessResult& result) {
  for (const PreprocessOutput& output : result.outputs) {
    fmt::print("{}.bin, .idx: {}, {}, {}\n", output.prefix, counted(output.documents, "document"),
               counted(output.sequences, "sequence"), counted(output.tokens, "token"));
  }
  fmt::print("{:.1f} MB of text in {:.1f} s ({:.1f} MB/s)\n",
             static_cast<double>(result.text_bytes) / 1e6, result.seconds,
             megabytes_per_second(result.text_bytes, result.seconds));
}

void print_notes(const PreprocessResult& result) {
  for (const std::string& line : lines_about(result.passed_over)) {
    fmt::print(stderr, "note: {}\n", line);
  }
  for (const std::string& doubt : result.doubts) fmt::print(stderr, "note: {}\n", doubt);
  if (result.repaired_documents > 0) {
    fmt::print(stderr,
               "note: {} invalid UTF-8 or unpaired surrogates, replaced by U+FFFD; the first: {}\n",
               counted(result.repaired_documents, "document") +
                   (result.repaired_documents == 1 ? " contains" : " contain"),
               result.first_repaired);
  }
  for (const std::string& file : result.json_lines_in_txt) {
    fmt::print(stderr,
               "note: '{}' looks like JSON lines and was read as such; --text-mode reads it as "
               "text\n",
               file);
  }
  if (const std::size_t large = result.large_documents.size(); large > 0) {
    fmt::print(
        stderr,
        "note: {} of more than a megabyte {} one document{} ('{}'{}); --documents paragraph or "
        "--documents line makes a document of each paragraph or line\n",
        counted(large, "text file"), large == 1 ? "is" : "are", large == 1 ? "" : " each",
        result.large_documents[0], large == 1 ? "" : ", ...");
  }
  if (result.bad_lines > 0) {
    fmt::print(stderr, "skipped {}; the first: {}\n", counted(result.bad_lines, "line"),
               result.first_bad_line);
  }
}

void run_preprocess(const PreprocessCommand& options) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.tokenizer);
  PreprocessResult result;
  stoppable([&] {
    ProgressLine line(options.log_interval);
    result = preprocess(*tokenizer, options.work, [&](const PreprocessProgress& now) {
      check_stopped();
      line.show(now);
    });
  });
  print_notes(result);
  options.as_json ? print_json(result) : print_text(result);
}

void add_flags(CLI::App& command, PreprocessCommand& options) {
  PreprocessOptions& work = options.work;
  command
      .add_option(
          "input,--input", work.inputs,
          "files, patterns or folders: Parquet and Arrow are detected by content, files named .txt "
          "that do not look like JSON lines are text, and all others are JSON lines; text and JSON "
          "lines may be compressed with gzip, xz or zstd")
      ->required();
  command
      .add_option("--output-prefix", work.output_prefix,
                  "files are PREFIX_<key>_document.bin and .idx")
      ->required();
  command
      .add_option("--json-keys", work.json_keys,
                  "keys or columns to read; one pair of files for each")
      ->capture_default_str();
  command.add_flag("--append-eod", work.append_eod, "end each document with the EOD token");
  command.add_flag("--split-sentences", work.split_sentences,
                   "one sequence per sentence, for BERT; files end in _sentence");
  command.add_flag("--keep-newlines", work.keep_newlines,
                   "with --split-sentences: keep the white space after each sentence");
  command.add_flag(
      "--skip-bad-lines", work.skip_bad_lines,
      "skip and count lines that are not JSON or lack a key, and null rows, instead of stopping");
  command.add_flag("--text-mode", work.all_text,
                   "treat all inputs as plain text, regardless of their names and contents");
  const std::map<std::string, DocumentForm> forms = {{"file", DocumentForm::file},
                                                     {"paragraph", DocumentForm::paragraphs},
                                                     {"line", DocumentForm::line}};
  command
      .add_option("--documents", work.text_documents,
                  "how plain text is split into documents: the whole file (default), paragraphs "
                  "(up to a blank line) or lines")
      ->transform(CLI::CheckedTransformer(forms))
      ->option_text("file|paragraph|line");
  work.workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  command.add_option("--workers", work.workers, "threads")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      .add_option("--log-interval", options.log_interval,
                  "if the output is not a terminal: print progress after this many documents; 0: "
                  "never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_flag("--json", options.as_json, "print figures as JSON");
}

void add_ignored_flags(CLI::App& command, PreprocessCommand& options) {
  const char* group = "Accepted from Megatron scripts and ignored";
  command.add_option("--dataset-impl", options.ignored_text, "the format is always mmap")
      ->check(CLI::IsMember({"mmap"}))
      ->group(group);
  command
      .add_option("--partitions", options.ignored_number, "threads share the work automatically")
      ->group(group);
  command
      .add_flag("--keep-sequential-samples", options.ignored_flag, "the order is always preserved")
      ->group(group);
  command
      .add_option("--lang", options.ignored_text,
                  "the sentence rules are the same for all languages")
      ->group(group);
}

}  // namespace

void add_preprocess(CLI::App& app) {
  auto options = std::make_shared<PreprocessCommand>();
  CLI::App* command =
      app.add_subcommand("preprocess", "Turn text into indexed token files (.bin, .idx)");
  add_flags(*command, *options);
  add_tokenizer_flags(*command, options->tokenizer);
  add_ignored_flags(*command, *options);
  command->callback([options] { run_preprocess(*options); });
}

}  // namespace trireme::cli
