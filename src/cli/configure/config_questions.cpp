// The questions, their defaults, and the file generated from the answers.
#include "cli/configure/config_questions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "cli/configure/config_from.h"
#include "cli/configure/config_recommended.h"
#include "cli/configure/config_tokenizer.h"
#include "config/families.h"
#include "config/fields.h"
#include "config/presets.h"
#include "operations/site.h"
#include "plan/choose_layout.h"
#include "plan/layout_plan.h"
#include "plan/machine.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace trireme::cli {
namespace {

// Indices of the table below.
enum class Ask : std::uint8_t {
  machine,
  nodes,
  ranks,
  memory,
  model,
  layers,
  hidden,
  heads,
  length,
  precision,
  data,
  tokenizer,
  vocabulary,
  batch,
  iters,
  rate,
};

constexpr std::array<Question, 16> table = {{
    {"machine",
     "Where will it run: this (this machine), lumi, frontier, another machine known to trireme "
     "plan (h100, a100, mi300x ...), or cuda or hip (other machines with GPUs)?"},
    {"nodes", "How many nodes?"},
    {"ranks", "How many GPUs per node, or processes on this machine?"},
    {"memory", "How much memory does each GPU or process have?"},
    {"model",
     "Which model: a preset (trireme config --presets lists them), or gpt or llama with custom "
     "sizes?"},
    {"layers", "How many layers?"},
    {"hidden", "Which hidden size?"},
    {"heads", "How many heads?"},
    {"seq-length", "How many tokens per sequence?"},
    {"precision", "Which precision: bf16, fp16 or fp32?"},
    {"data", "Where is the data (the prefix that trireme preprocess wrote)?"},
    {"tokenizer",
     "Which tokenizer file: vocab.json of GPT-2, a tokenizer.json, a SentencePiece or tiktoken "
     "model?"},
    {"vocab-size", "How many tokens are in its vocabulary?"},
    {"batch", "How many sequences per global batch?"},
    {"iters", "How many steps?"},
    {"lr", "What peak learning rate?"},
}};

const Question& question(Ask which) {
  return table[static_cast<std::size_t>(which)];
}

// On the local machine, nodes and GPUs are irrelevant.
constexpr Question processes_here = {"ranks", "How many processes on this machine?"};

// The answers so far.
struct Answers {
  std::string machine;
  DeviceKind device = DeviceKind::cpu;
  RankSet set;
  std::string model;
  const settings::SettingsFile* from = nullptr;  // or null

  std::string known(const std::string& key) const { return from ? value_of(*from, key) : ""; }
  bool here() const { return machine == "this"; }
};

std::string some_text(const std::string& text) {
  return text.empty() ? "expected some text" : "";
}

std::string as_bytes(const std::string& text) {
  try {
    parse_byte_size(text, "memory");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Returns a GPU machine known to `trireme plan`, or a cluster of such machines.
std::optional<Machine> known_machine(const std::string& name) {
  const std::string machine(machine_of_site(name));
  if (machine_text(machine).empty()) return std::nullopt;
  Machine found = find_machine(machine);
  const bool is_cpu = found.target.device == DeviceKind::cpu;
  return is_cpu || !found.speed ? std::nullopt : std::optional(std::move(found));
}

std::string check_machine(const std::string& name) {
  if (name == "this" || name == "cuda" || name == "hip" || known_machine(name)) return "";
  std::vector<std::string> known = {"this"};
  for (const Site& site : all_sites())
    if (!site.machine.empty()) known.emplace_back(site.name);
  for (const std::string& machine : machine_names())
    if (known_machine(machine) && std::ranges::count(known, machine) == 0) known.push_back(machine);
  return fmt::format("expected one of {}, cuda, hip", fmt::join(known, ", "));
}

void ask_machine(Questions& questions, Answers& answers) {
  // Other systems train on GPUs unless their file specifies otherwise.
  const bool gpus = answers.from && answers.known("run.device") != "\"cpu\"";
  answers.machine = questions.ask(question(Ask::machine), gpus ? "cuda" : "this", check_machine);
  RankSet& set = answers.set;
  Question ranks = question(Ask::ranks);
  if (answers.here()) {
    answers.device = DeviceKind::cpu;
    set.ranks = static_cast<int>(questions.ask_count(processes_here, 1, 1024));
    set.ranks_per_node = set.ranks;
    set.memory = machine_memory_bytes() / set.ranks;
    return;
  }
  const std::int64_t count = questions.ask_count(question(Ask::nodes), 1, 1 << 16);
  if (const std::optional<Machine> machine = known_machine(answers.machine)) {
    answers.device = machine->target.device;
    set.ranks_per_node = machine->speed->devices;
    set.memory = static_cast<std::int64_t>(machine->speed->memory_bytes);
  } else {
    answers.device = find_choice<DeviceKind>(answers.machine).value();
    ranks.text = "How many GPUs per node?";
    set.ranks_per_node = static_cast<int>(questions.ask_count(ranks, 8, 64));
    set.memory =
        parse_byte_size(questions.ask(question(Ask::memory), "80GiB", as_bytes), "--memory");
  }
  set.ranks = static_cast<int>(count) * set.ranks_per_node;
}

std::string known_model(const std::string& name) {
  if (name == "gpt" || name == "llama" || find_preset(name)) return "";
  std::string known;
  for (const Preset& preset : all_presets()) known += fmt::format(", {}", preset.name);
  return "expected gpt, llama, or a preset: " + known.substr(2);
}

// For a model given by a file.
std::string length_line(Questions& questions, const std::string& usual) {
  const std::int64_t tokens = usual.empty() ? 2048 : std::stoll(usual);
  return fmt::format("seq_length = {}\n",
                     questions.ask_count(question(Ask::length), tokens, 1 << 24));
}

// Error of a model, or "": reported at the question whose answer causes it.
std::string fault_of(const std::string& model_lines) {
  try {
    validate(parse_config(
        fmt::format("[model]\nvocab_size = 1024\n{}\n[train]\niters = 1\nglobal_batch_size = 1\n"
                    "[optimizer]\nlr = 1e-4\n",
                    model_lines),
        "the answers"));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// The largest number of heads, at most `most`, that divides the hidden size.
std::int64_t heads_for(std::int64_t hidden, std::int64_t most) {
  std::int64_t heads = std::max<std::int64_t>(1, most);
  while (hidden % heads != 0) --heads;
  return heads;
}

// The model section; for a custom model, proposes a size for a first try on this machine.
std::string ask_model(Questions& questions, Answers& answers) {
  const bool here = answers.here();
  if (const std::string preset = answers.known("model.preset"); !preset.empty()) {
    answers.model = preset.substr(1, preset.size() - 2);
    return length_line(questions, answers.known("model.seq_length"));
  }
  if (const std::string family = answers.known("model.family"); !family.empty()) {
    answers.model = family.substr(1, family.size() - 2);
    return length_line(questions, answers.known("model.seq_length"));
  }
  answers.model = questions.ask(question(Ask::model), here ? "gpt" : "llama3-8b", known_model);
  if (find_preset(answers.model)) {
    const std::int64_t usual =
        parse_config("model.preset = \"" + answers.model + "\"", "a preset").model.seq_length;
    const auto lines = [&](std::int64_t tokens) {
      const std::string more = tokens == usual ? "" : fmt::format("seq_length = {}\n", tokens);
      return fmt::format("preset = \"{}\"\n{}", answers.model, more);
    };
    return lines(questions.ask_count(question(Ask::length), usual, 1 << 24, "",
                                     [&](std::int64_t tokens) { return fault_of(lines(tokens)); }));
  }
  const std::int64_t count = questions.ask_count(question(Ask::layers), here ? 4 : 24, 4096);
  const std::int64_t size = questions.ask_count(question(Ask::hidden), here ? 256 : 2048, 1 << 20);
  const auto lines = [&](std::int64_t heads, std::int64_t tokens) {
    return fmt::format(
        "family = \"{}\"\nnum_layers = {}\nhidden_size = {}\nnum_heads = {}\nseq_length = {}\n",
        answers.model, count, size, heads, tokens);
  };
  const std::int64_t head_count =
      questions.ask_count(question(Ask::heads), heads_for(size, size / (here ? 64 : 128)), 1 << 16,
                          "", [&](std::int64_t heads) { return fault_of(lines(heads, 64)); });
  const std::int64_t length =
      questions.ask_count(question(Ask::length), here ? 256 : 4096, 1 << 24, "",
                          [&](std::int64_t tokens) { return fault_of(lines(head_count, tokens)); });
  return lines(head_count, length);
}

// Makes text suitable for a comment.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

// Number of parameters of a model whose vocabulary is known.
double parameters_of(Config config, DeviceKind device) {
  config.run.device = device;
  config.train.global_batch_size = config.train.micro_batch_size = 1;
  config.parallel = {};
  config.parallel.recompute = Recompute::full;
  return static_cast<double>(plan_layout(config, 1, target_of(device)).parameters);
}

std::string positive(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == 0 && value >= 1e-12 && value < 10
             ? ""
             : "expected a number from 1e-12 to 10, such as 3e-4";
}

// Rounds to a power of two, with at least one sample per rank.
std::int64_t proposed_batch(double tokens, std::int64_t seq_length, int rank_count) {
  std::int64_t batch = 1;
  while (std::sqrt(2.0) * static_cast<double>(batch * seq_length) <= tokens) batch *= 2;
  while (batch < rank_count) batch *= 2;
  return batch;
}

std::string layout_lines(const LayoutChoice& choice, const Answers& answers) {
  const ParallelConfig& p = choice.config.parallel;
  std::string text =
      fmt::format("# Planned: {} of {} in each of {}.{}{}\n", bytes_to_text(choice.needed),
                  bytes_to_text(answers.set.memory), counted(answers.set.ranks, "rank"),
                  choice.reason.empty() ? "" : " ", choice.reason);
  text += fmt::format("[parallel]\ntp = {}\npp = {}\nzero = {}\nrecompute = \"{}\"\n", p.tp, p.pp,
                      p.zero, p.recompute);
  if (p.sequence_parallel) text += "sequence_parallel = true\n";
  return text;
}

// Asks for [run], [model] and [data].
std::string ask_model_and_data(Questions& questions, Answers& answers) {
  ask_machine(questions, answers);
  const std::string model_lines = ask_model(questions, answers);
  const std::array<std::string, 3> precisions = {"bf16", "fp16", "fp32"};
  const std::string precision = questions.ask_one_of(question(Ask::precision), "bf16", precisions);
  const char* const unit = answers.model.starts_with("bert") ? "sentence" : "document";
  const std::string prefix =
      questions.ask(question(Ask::data), fmt::format("data/corpus_text_{}", unit), some_text);
  std::string tokenizer;
  if (answers.known("data.tokenizer").empty())
    tokenizer = tokenizer_lines(
        questions.ask(question(Ask::tokenizer), proposed_tokenizer(answers.model), some_text),
        answers.model);
  return fmt::format(
      "[run]\ndir = \"runs/{}\"\ndevice = \"{}\"\nprecision = \"{}\"\n\n[model]\n{}\n"
      "[data]\npath = [{}]\nsplit = \"969,30,1\"\n{}\n",
      answers.model, answers.device, precision, model_lines, toml_string(prefix), tokenizer);
}

// The [model] line with the vocabulary size, if neither an existing tokenizer file nor the model
// determines it.
std::string ask_vocabulary(Questions& questions, Config& config) {
  try {
    assume_vocabulary(config);
    return "";
  } catch (const Error&) {
    // The error says where to set the key; the answer does that.
  }
  const DataConfig& data = config.data;
  const std::string& file = data.vocab_file.empty() ? data.tokenizer_model : data.vocab_file;
  config.model.vocab_size =
      questions.ask_count(question(Ask::vocabulary), 32000, 1 << 24,
                          fmt::format("'{}' cannot be read, so enter the number", file));
  return fmt::format("vocab_size = {}  # '{}' could not be read; it must not have more tokens\n",
                     config.model.vocab_size, one_line(file));
}

// Whether the file specifies a parallel layout.
bool has_layout(const Answers& answers) {
  constexpr std::array<const char*, 7> of_a_layout = {"tp",        "pp",   "cp",          "ep",
                                                      "expert_tp", "zero", "dp_replicate"};
  return std::ranges::any_of(of_a_layout, [&](const char* key) {
    return !answers.known(fmt::format("parallel.{}", key)).empty();
  });
}

// Formats "125 million", "12.9 billion".
std::string size_text(double parameters) {
  const double millions = parameters / 1e6;
  if (millions < 1000) return fmt::format("{:.3g} million", millions);
  if (millions < 1e6) return fmt::format("{:.3g} billion", millions / 1e3);
  return fmt::format("{:.3g} trillion", millions / 1e6);
}

struct Training {
  std::int64_t batch, steps;
  double rate;
};

// Number of data-parallel ranks in the file's layout.
std::int64_t replicas_of(const Config& config, const Answers& answers) {
  const ParallelConfig& p = config.parallel;
  const std::int64_t others = p.tp * p.pp * p.cp;
  return answers.set.ranks % others == 0 ? answers.set.ranks / others : 0;
}

// Total micro-batches over all ranks required by the file, which must divide the batch.
std::int64_t parts_of_batch(const Config& config, const Answers& answers) {
  return answers.from ? answers.from->micro_batches * replicas_of(config, answers) : 0;
}

// Error of a batch size, or "".
std::string fault_of_batch(Config config, const Answers& answers, std::int64_t batch) {
  if (const std::int64_t parts = parts_of_batch(config, answers); parts > 0 && batch % parts != 0)
    return fmt::format("a batch of {} is not a multiple of {} = {} times {}", batch,
                       answers.from->micro_batches_key, answers.from->micro_batches,
                       counted(replicas_of(config, answers), "data-parallel rank"));
  try {
    config.train.global_batch_size = batch;
    refuse_without_layout(config, answers.set, has_layout(answers));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

Training ask_training(Questions& questions, const Answers& answers, const Config& config) {
  const double parameters = parameters_of(config, answers.device);
  const bool bert = config.model.family == "bert", here = answers.here();
  const Recommended& row = bert ? of_bert : recommended_for(parameters);
  const std::int64_t length = config.model.seq_length;
  const std::string why =
      bert ? "Devlin et al. 2019"
           : fmt::format("{} parameters; table 2.1 of Brown et al. 2020", size_text(parameters));
  Training training{};
  std::int64_t batch =
      here ? 16 * answers.set.ranks : proposed_batch(row.batch_tokens, length, answers.set.ranks);
  if (const std::int64_t parts = parts_of_batch(config, answers); parts > 0)
    batch = std::max<std::int64_t>(1, batch / parts) * parts;
  training.batch = questions.ask_count(
      question(Ask::batch), batch, 1 << 24, here ? "" : why,
      [&](std::int64_t count) { return fault_of_batch(config, answers, count); });

  const double tokens_per_step = static_cast<double>(training.batch * length);
  std::int64_t steps = static_cast<std::int64_t>(std::ceil(20 * parameters / tokens_per_step));
  std::string why_steps = "20 tokens per parameter";
  if (here) {
    steps = 1000;
    why_steps = "";
  } else if (bert) {
    steps = steps_of_bert;
    why_steps = why;
  }
  training.steps = questions.ask_count(question(Ask::iters), steps, 1LL << 40, why_steps);
  const std::string rate =
      questions.ask(question(Ask::rate), fmt::format("{:.2g}", row.rate), positive, why);
  training.rate = std::strtod(rate.c_str(), nullptr);
  return training;
}

// Formats [train], [optimizer], [parallel] and [checkpoint].
std::string training_lines(const Training& training, const LayoutChoice& choice,
                           const Answers& answers) {
  const bool bert = choice.config.model.family == "bert";
  const std::int64_t warmup =
      bert ? training.steps / 100 : std::min<std::int64_t>(2000, training.steps / 100);
  const std::int64_t interval = std::clamp<std::int64_t>(training.steps / 4, 1, 1000);
  return fmt::format(
      "[train]\nmicro_batch_size = {}\nglobal_batch_size = {}\niters = {}\neval_interval = {}\n"
      "eval_iters = 8\n\n"
      "[optimizer]\nlr = {}\nmin_lr = {:.2g}\ndecay_style = \"{}\"\nwarmup_iters = {}\n{}"
      "clip_grad = 1.0\n\n{}\n[checkpoint]\ninterval = {}\nkeep = 3\n",
      choice.config.train.micro_batch_size, training.batch, training.steps, interval,
      toml_number(training.rate), training.rate / 10, bert ? "linear" : "cosine", warmup,
      bert ? "weight_decay = 0.01\n" : "weight_decay = 0.1\nbeta2 = 0.95\n",
      layout_lines(choice, answers), interval);
}

// The file's layout, with the micro-batch size implied by its number of micro-batches, if it fits.
LayoutChoice layout_of_file(Config config, const Answers& answers) {
  const std::int64_t parts = parts_of_batch(config, answers);
  const bool open = answers.known("train.micro_batch_size").empty();
  if (!open || parts == 0) return keep_layout(config, answers.set, open);
  config.train.micro_batch_size = config.train.global_batch_size / parts;
  LayoutChoice choice = keep_layout(config, answers.set, false);
  if (choice.needed <= answers.set.memory || config.train.micro_batch_size == 1) return choice;
  const std::string reason = fmt::format(
      "With {} = {} a micro-batch of {} would need {}; smaller micro-batches give the same "
      "results.",
      answers.from->micro_batches_key, answers.from->micro_batches, config.train.micro_batch_size,
      bytes_to_text(choice.needed));
  config.train.micro_batch_size = 1;
  choice = keep_layout(config, answers.set, true);
  choice.reason = reason;
  return choice;
}

LayoutChoice layout_of(const Config& config, const Answers& answers) {
  if (has_layout(answers)) {
    LayoutChoice choice = layout_of_file(config, answers);
    if (choice.needed > answers.set.memory)
      fail_input(
          "the layout of this file needs {} of {} on each of {}: remove its parallel degrees to "
          "have a layout chosen, or run `trireme plan --search`",
          bytes_to_text(choice.needed), bytes_to_text(answers.set.memory),
          counted(answers.set.ranks, "rank"));
    return choice;
  }
  std::optional<LayoutChoice> choice = choose_layout(config, answers.set);
  if (!choice)
    fail_input(
        "no layout of this model fits on {} of {}: use more nodes, a smaller model or shorter "
        "sequences",
        counted(answers.set.ranks, "rank"), bytes_to_text(answers.set.memory));
  return std::move(*choice);
}

std::string introduction(const settings::SettingsFile* from) {
  std::string text = "# Written by `trireme config`: docs/configuration.md describes all keys.\n";
  if (!from) return text;
  for (const megatron::Note& note : from->translation.notes)
    text += fmt::format("# {}: {} {}\n", settings::name_of(from->system), note.flag, note.text);
  return text;
}

}  // namespace

std::span<const Question> config_questions() {
  return table;
}

std::string configuration_by_questions(Questions& questions, const settings::SettingsFile* from) {
  Answers answers;
  answers.from = from;
  std::string head = ask_model_and_data(questions, answers);
  const std::string steps = answers.known("train.iters"), peak = answers.known("optimizer.lr");
  std::string first = fmt::format("{}[train]\niters = {}\n[optimizer]\nlr = {}\n", head,
                                  steps.empty() ? "1000000" : steps, peak.empty() ? "1e-4" : peak);
  if (from) first = with_settings_of(*from, first);
  Config config = parse_config(first, "the answers");
  const std::string vocabulary = ask_vocabulary(questions, config);
  head.insert(head.find("\n[data]"), vocabulary);
  validate(config);
  const Training training = ask_training(questions, answers, config);
  questions.refuse_others();

  config.train.global_batch_size = training.batch;
  const LayoutChoice choice = layout_of(config, answers);
  const std::string text = head + training_lines(training, choice, answers);
  return introduction(from) + (from ? with_settings_of(*from, text) : text);
}

}  // namespace trireme::cli
