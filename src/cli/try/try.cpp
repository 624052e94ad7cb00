// `trireme try`: trains a text generator from a text within minutes, without decisions.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/counted.h"
#include "base/error.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/try/report.h"
#include "cli/try/settings.h"
#include "cli/try/text.h"
#include "cli/try/training.h"
#include "data/preprocess.h"
#include "tokenizer/bpe/bpe_trainer.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t try_vocabulary = 4096;
constexpr double most_minutes = 10'000;

struct TryArguments {
  std::vector<std::string> files;
  std::string output;
  double minutes = 3;
  std::int64_t steps = 0;  // 0: as many as fit
  bool full = false;

  // Key by which two tries of the same text are considered the same.
  std::string wish() const {
    std::string words = full ? "full" : "small or full";
    if (steps > 0) return fmt::format("{}, {}", words, counted(steps, "step"));
    return full ? words : fmt::format("{}, {} minutes", words, minutes);
  }
};

double seconds_after(TryClock::time_point begin) {
  return std::chrono::duration<double>(TryClock::now() - begin).count();
}

// Contents of TryFiles::mark(), written at the start.
nlohmann::json mark_of(const TryArguments& a, const TryText& text) {
  return {{"text", fmt::format("{:016x}", text.hash)}, {"asked", a.wish()}};
}

enum class FolderUse { free, same, other_try, foreign };

FolderUse use_of(const fs::path& folder, const nlohmann::json& mark) {
  if (!fs::exists(folder)) return FolderUse::free;
  if (!fs::is_directory(folder)) return FolderUse::foreign;
  if (fs::is_empty(folder)) return FolderUse::free;
  const fs::path file = TryFiles{folder}.mark();
  if (!fs::exists(file)) return FolderUse::foreign;
  nlohmann::json found = nlohmann::json::parse(read_file(file), nullptr, false);
  if (found.is_object()) found.erase("steps");
  return found == mark ? FolderUse::same : FolderUse::other_try;
}

// Returns the folder given by --output; otherwise the first of runs/try, runs/try-2 ... that is
// free or belongs to the same try, which is then continued.
fs::path folder_for(const TryArguments& a, const nlohmann::json& mark) {
  if (!a.output.empty()) {
    const FolderUse use = use_of(a.output, mark);
    if (use == FolderUse::other_try)
      fail_input(
          "'{}' holds a try of another text or with other flags: move it away, or give another "
          "folder with --output",
          a.output);
    if (use == FolderUse::foreign)
      fail_input(
          "'{}' exists and is not of `trireme try`, or of an earlier version: move it away, or "
          "give another folder with --output",
          a.output);
    return a.output;
  }
  for (int number = 1;; ++number) {
    const fs::path folder = number == 1 ? "runs/try" : fmt::format("runs/try-{}", number);
    const FolderUse use = use_of(folder, mark);
    if (use == FolderUse::free || use == FolderUse::same) return folder;
  }
}

void train_vocabulary(const TryFiles& files) {
  const TrainedBpe trained = train_bpe(count_text_file(files.text("train")), try_vocabulary);
  write_gpt2_files(trained, files.tokenizer());
  fmt::print("tokenizer: {} learned from the text\n", counted(trained.tokens.size() + 1, "token"));
}

void write_tokens(const TryFiles& files) {
  TokenizerConfig of_files;
  of_files.type = "gpt2";
  of_files.model_file = files.tokenizer().string();
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(of_files);
  for (const char* part : {"train", "heldout"}) {
    PreprocessOptions options;
    options.inputs = {files.text(part).string()};
    options.output_prefix = (files.data() / part).string();
    options.text_documents = DocumentForm::paragraphs;
    options.all_text = true;
    options.append_eod = true;
    options.workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const PreprocessResult result =
        preprocess(*tokenizer, options, [](const PreprocessProgress&) { check_stopped(); });
    fmt::print("{}: {}, {}\n", options.output_prefix, counted(result.documents, "document"),
               counted(result.outputs.front().tokens, "token"));
  }
}

TryLength length_for(const TryArguments& a, const TryFiles& files, const TryText& text,
                     TryClock::time_point begin) {
  const TrySize size = a.full ? TrySize::full : TrySize::small;
  if (a.steps > 0) return {size, a.steps};
  if (a.full) return {size, full_try_steps};
  fmt::print("measuring how many steps fit into {}\n", counted(a.minutes, "minute"));
  std::fflush(stdout);
  return fitting_length(files, 60 * a.minutes - seconds_after(begin), text.heldout.size(),
                        [](const std::string&) { check_stopped(); });
}

// Creates all files of a run; try.toml is written last, as the marker of completeness.
void prepare_try(const TryArguments& a, const TryFiles& files, const TryText& text,
                 const nlohmann::json& mark, TryClock::time_point begin) {
  make_folders(files.data());
  write_file_durably(files.mark(), mark.dump() + "\n");
  write_file_durably(files.text("train"), text.train);
  write_file_durably(files.text("heldout"), text.heldout);
  fmt::print("text: {} to train on, {} held out\n", counted(text.train.size(), "byte"),
             counted(text.heldout.size(), "byte"));
  train_vocabulary(files);
  write_tokens(files);
  const TryLength length = length_for(a, files, text, begin);
  write_file_durably(files.settings(), try_settings(files, length.size, length.steps));
}

void run_try(const TryArguments& a) {
  const auto begin = TryClock::now();
  if (!(a.minutes > 0 && a.minutes <= most_minutes))
    fail_input("--minutes is {}: expected a number above 0 and at most {}", a.minutes,
               most_minutes);
  const TryText text = read_try_text(a.files);
  const nlohmann::json mark = mark_of(a, text);
  const TryFiles files{folder_for(a, mark)};
  if (!text.note.empty()) fmt::print(stderr, "note: {}\n", text.note);
  make_folders(files.run);  // fails early, before anything takes time
  const CompressedSizes sizes = compressed_sizes(text);
  stoppable([&] {
    if (fs::exists(files.settings()))
      fmt::print("continuing the run in {}\n", files.run.string());
    else
      prepare_try(a, files, text, mark, begin);
  });
  std::fflush(stdout);
  std::optional<TryClock::time_point> end;
  if (a.steps == 0 && !a.full)
    end = begin + std::chrono::duration_cast<TryClock::duration>(
                      std::chrono::duration<double>(60 * a.minutes));
  train_try(files, end, text.heldout.size());
  print_try_report(files, sizes, a.files, a.full);
  fmt::print("\naltogether {:.0f} s\n", seconds_after(begin));
}

}  // namespace

void add_try(CLI::App& app) {
  auto* command = app.add_subcommand(
      "try", "Train a small model on a text within minutes, and show what it has learned");
  auto a = std::make_shared<TryArguments>();
  command->add_option("files", a->files,
                      "Text files, which may be compressed; without any, the King James Bible that "
                      "comes with the program");
  command->add_option("--output", a->output,
                      "Folder of the run; without it runs/try, or the next free one. The same "
                      "command continues a run");
  auto* minutes =
      command
          ->add_option("--minutes", a->minutes, "Time that it may take, from its start to its end")
          ->capture_default_str();
  auto* full = command->add_flag(
      "--full", a->full,
      fmt::format("{} steps of a larger model, however long they take", full_try_steps));
  auto* steps = command->add_option("--steps", a->steps, "Number of steps, instead of a time")
                    ->check(CLI::Range(1, 1'000'000));
  full->excludes(minutes);
  steps->excludes(minutes);
  command->callback([a] { run_try(*a); });
}

}  // namespace trireme::cli
