// `trireme pretrain-gpt` and `pretrain-bert`: train with the flags of an existing Megatron script.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/launch/launch.h"
#include "cli/launch/supervise.h"
#include "cli/train.h"
#include "comm/transport.h"
#include "importers/megatron/translate.h"
#include "train/run/setup.h"

namespace trireme::cli {
namespace {

// Removes `flag` from the arguments; returns whether it was there.
bool take(std::vector<std::string>& arguments, const char* flag) {
  return std::erase(arguments, flag) > 0;
}

// Removes each "FLAG TEXT" or "FLAG=TEXT" from the arguments; the last one counts.
std::optional<std::string> take_text(std::vector<std::string>& arguments, const std::string& flag) {
  std::optional<std::string> text;
  for (auto at = arguments.begin(); at != arguments.end();) {
    const bool joined = at->starts_with(flag + "=");
    if (*at != flag && !joined) {
      ++at;
      continue;
    }
    const auto value = joined ? at : at + 1;
    if (value == arguments.end()) fail_input("{}: expected a value after it", flag);
    text = joined ? value->substr(flag.size() + 1) : *value;
    at = arguments.erase(at, value + 1);
  }
  return text;
}

// The same for a number. `what` describes it in messages.
template <class Number>
std::optional<Number> take_number(std::vector<std::string>& arguments, const std::string& flag,
                                  const char* what, Number least, Number most) {
  const auto text = take_text(arguments, flag);
  if (!text) return std::nullopt;
  Number number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool in_range = number >= least && number <= most;  // NaN is not
  if (error != std::errc() || end != text->data() + text->size() || !in_range)
    fail_input("{}: expected {} from {} to {}, found '{}'", flag, what, least, most, *text);
  return number;
}

void pretrain(megatron::Program program, std::vector<std::string> arguments) {
  if (take(arguments, "--help") || take(arguments, "-h")) {
    fmt::print("{}", megatron::help(program));
    return;
  }
  if (const auto level = take_text(arguments, "--log-level")) {
    if (!find_choice<LogLevel>(*level))
      fail_input("--log-level: expected one of {}, found '{}'",
                 fmt::join(names_of<LogLevel>(), ", "), *level);
    arguments.push_back("log.level=" + *level);
  }
  const bool print_config = take(arguments, "--print-config");
  TrainCommand command;
  command.json = take(arguments, "--json");
  command.nproc =
      take_number(arguments, "--nproc", "a number of processes", 1, 1 << 16).value_or(0);
  const auto restarts = take_number(arguments, "--restarts", "a number of restarts", 0, 1000);
  const auto wait_s = take_number(arguments, "--restart-wait", "a number of seconds", 0.0, 300.0);
  const int ranks = print_config ? 0 : command.nproc;
  const int all_ranks = print_config || ranks > 0 ? ranks : discover_launch().size;
  const megatron::Translation translation =
      megatron::translate(arguments, {.program = program, .ranks = all_ranks});
  Config config = megatron::to_config(translation);
  megatron::check(config, ranks);
  if (restarts && !print_config)
    restart_own_command(config.run.dir, *restarts, wait_s.value_or(RestartLimits{}.first_wait_s));
  if (ranks > 0) {
    refuse_foreign_folders(config);
    launch_processes(ranks, config.run.dir);
  }
  if (discover_launch().rank == 0) {
    for (const megatron::Note& note : translation.notes)
      fmt::print(stderr, "note: {}: {}\n", note.flag, note.text);
    const bool said = std::ranges::any_of(translation.overrides, [](const std::string& text) {
      return text.starts_with("run.device=");
    });
    if (!said)
      fmt::print(stderr,
                 "note: run.device: training on CPUs, because no Megatron flag selects a device; "
                 "add run.device=cuda or run.device=hip for GPUs\n");
  }
  if (print_config) {
    fmt::print("{}", megatron::to_toml(translation));
    return;
  }
  std::fflush(stderr);
  train(std::move(config), command);
}

void add(CLI::App& app, megatron::Program program, const char* name, const char* description) {
  CLI::App* command = app.add_subcommand(name, description);
  // All arguments are passed through: flags follow Megatron's rules, not CLI11's.
  command->set_help_flag("");
  command->prefix_command();
  command->callback([command, program] { pretrain(program, command->remaining()); });
}

}  // namespace

void add_pretrain(CLI::App& app) {
  add(app, megatron::Program::gpt, "pretrain-gpt",
      "Train from the flags of Megatron's pretrain_gpt");
  add(app, megatron::Program::bert, "pretrain-bert",
      "Train from the flags of Megatron's pretrain_bert");
}

}  // namespace trireme::cli
