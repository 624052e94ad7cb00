// Prints bits per byte of the model and of compressors, samples, and next commands.
#include "cli/try/report.h"

#include <fmt/format.h>

#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/beside_program.h"
#include "checkpoint/layout.h"
#include "cli/evaluate/generate.h"
#include "cli/evaluate/text_stream.h"
#include "data/documents/compressed_size.h"
#include "generate/evaluation.h"
#include "operations/slurm_script.h"

namespace trireme::cli {
namespace {

struct TryFigures {
  Evaluation evaluation;
  std::int64_t steps = 0;
  double train_seconds = 0, tokens_per_second = 0;
  CompressedSizes sizes;

  double bits_of(std::int64_t bytes) const {
    return 8.0 * static_cast<double>(bytes) / static_cast<double>(evaluation.bytes);
  }
};

// Total seconds of steps over all processes of the run.
double seconds_of_steps(const fs::path& run) {
  std::istringstream lines(read_file(run / "timings.jsonl"));
  double seconds = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json values = nlohmann::json::parse(line, nullptr, false);
    if (values.is_object()) seconds += values.value("seconds", 0.0);
  }
  return seconds;
}

TryFigures figures_of(const TryFiles& files, const CompressedSizes& sizes) {
  TrainedModel model(files.run);
  const TextStream text =
      read_text_stream(files.text("heldout").string(), DocumentForm::paragraphs, model.tokenizer());
  TryFigures figures;
  figures.evaluation = evaluate_tokens(model, text.ids, text.bytes, {});
  figures.train_seconds = seconds_of_steps(files.run);
  const TrainConfig& train = model.config().train;
  figures.steps = model.step();
  const std::int64_t tokens =
      figures.steps * train.global_batch_size * model.config().model.seq_length;
  figures.tokens_per_second = static_cast<double>(tokens) / figures.train_seconds;
  figures.sizes = sizes;
  return figures;
}

void write_summary(const fs::path& file, const TryFigures& f) {
  const nlohmann::ordered_json summary = {{"val_loss", f.evaluation.loss()},
                                          {"bits_per_byte", f.evaluation.bits_per_byte()},
                                          {"gzip_bits_per_byte", f.bits_of(f.sizes.gzip)},
                                          {"xz_bits_per_byte", f.bits_of(f.sizes.xz)},
                                          {"steps", f.steps},
                                          {"tokens_per_second", f.tokens_per_second},
                                          {"train_seconds", f.train_seconds}};
  write_file_durably(file, summary.dump(2) + "\n");
}

void print_figures(const TryFigures& f) {
  const auto row = [](const char* name, double value, int digits) {
    fmt::print("{:<51} {:.{}f}\n", name, value, digits);
  };
  fmt::print("\n");
  row("held-out loss (nats per token)", f.evaluation.loss(), 4);
  row("bits per byte, this model", f.evaluation.bits_per_byte(), 4);
  row("bits per byte, gzip -9", f.bits_of(f.sizes.gzip), 4);
  row("bits per byte, xz -9 primed with the training text", f.bits_of(f.sizes.xz), 4);
  row("training, steps", static_cast<double>(f.steps), 0);
  row("training, tokens per second", f.tokens_per_second, 0);
  row("training, seconds", f.train_seconds, 1);
  if (f.evaluation.bits_per_byte() < f.bits_of(std::min(f.sizes.gzip, f.sizes.xz))) return;
  fmt::print("A compressor is still better: use more steps (--minutes, --steps) or more text.\n");
}

// The first words of the held-out text, from one line.
std::string first_words(const std::string& text) {
  constexpr int words = 5;
  std::istringstream line(text.substr(0, std::min(text.find('\n'), std::size_t{200})));
  std::string prompt, word;
  for (int i = 0; i < words && line >> word; ++i) prompt += (i > 0 ? " " : "") + word;
  return prompt;
}

void print_samples(const fs::path& run, const std::string& prompt) {
  GenerateOptions options;
  options.max_new_tokens = 80;
  options.sampling.temperature = 0.8f;
  options.sampling.top_p = 0.95f;
  options.seed = 1;
  const fs::path checkpoints = run / "checkpoints";
  const std::vector<std::int64_t> steps = saved_steps(checkpoints);
  for (const bool early : {true, false}) {
    if (early && steps.size() < 2) continue;
    const std::string name = step_folder(early ? steps.front() : steps.back());
    fmt::print("\n-- {} checkpoint ({}) after \"{}\":\n", early ? "early" : "last", name, prompt);
    print_continuation((checkpoints / name).string(), prompt, options);
  }
}

// The command as the user types it: its name if PATH resolves to it, otherwise its path.
std::string own_name() {
  const std::string file = own_command().front();
  const std::vector<fs::path> found = find_on_path("trireme");
  std::error_code error;
  if (!found.empty() && fs::equivalent(found.front(), file, error)) return "trireme";
  const fs::path relative = fs::relative(file, error);
  return error || relative.empty() || *relative.begin() == ".." ? file : relative.string();
}

// Quotes words of the user and of the text, since the commands are meant to be pasted.
void print_next_steps(const TryFiles& files, std::int64_t steps, const std::string& prompt,
                      const std::vector<std::string>& texts, bool full) {
  const std::string run = files.run.string();
  std::string more_of_it;
  if (!full) {
    more_of_it = fmt::format("  {} try --full", shell_word(own_name()));
    for (const std::string& text : texts) more_of_it += " " + shell_word(text);
    more_of_it += fmt::format("     # {} steps of a larger model\n", full_try_steps);
  }
  fmt::print(
      R"(
The results are in {summary}. Next steps:
  {trireme} generate {run} --prompt {prompt} --num-return-sequences 3 --seed 7
  {trireme} train {settings} train.iters={more}     # resumes this run, with its samples in a new order
  {trireme} train {settings} {larger} model.num_layers=6
{more_of_it}  {trireme} convert --to hf {run} {hf}     # for transformers
  {trireme} --help
and where `trireme` was installed with pip:
  python3 -c {python}
)",
      fmt::arg("summary", run + "/summary.json"), fmt::arg("run", shell_word(run)),
      fmt::arg("settings", shell_word(run + "/try.toml")),
      fmt::arg("larger", shell_word("run.dir=" + run + "-larger")),
      fmt::arg("hf", shell_word(run + "-hf")), fmt::arg("trireme", shell_word(own_name())),
      fmt::arg("prompt", shell_word(prompt)), fmt::arg("more", 2 * steps),
      fmt::arg("more_of_it", more_of_it),
      fmt::arg("python",
               shell_word(fmt::format(
                   "import trireme; print(trireme.Model(\"{}\").generate(\"The\", 40))", run))));
}

}  // namespace

CompressedSizes compressed_sizes(const TryText& text) {
  auto of_train = std::async(std::launch::async, [&] { return xz_size(text.train); });
  const std::int64_t of_both = xz_size(text.train + text.heldout);
  return {gzip_size(text.heldout), of_both - of_train.get()};
}

void print_try_report(const TryFiles& files, const CompressedSizes& sizes,
                      const std::vector<std::string>& texts, bool full) {
  const TryFigures figures = figures_of(files, sizes);
  write_summary(files.run / "summary.json", figures);
  print_figures(figures);
  const std::string prompt = first_words(read_file(files.text("heldout")));
  print_samples(files.run, prompt);
  print_next_steps(files, figures.steps, prompt, texts, full);
}

}  // namespace trireme::cli
