// `trireme pretrain-gpt` and `pretrain-bert`: train from the flags of an existing Megatron script.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/train.h"
#include "comm/transport.h"
#include "megatron/translate.h"

namespace trireme::cli {
namespace {

// Takes `flag` out of the arguments; whether it was there.
bool take(std::vector<std::string>& arguments, const char* flag) {
  return std::erase(arguments, flag) > 0;
}

void pretrain(megatron::Program program, std::vector<std::string> arguments) {
  if (take(arguments, "--help") || take(arguments, "-h")) {
    fmt::print("{}", megatron::help(program));
    return;
  }
  const bool print_config = take(arguments, "--print-config");
  TrainCommand command;
  command.json = take(arguments, "--json");
  const megatron::Translation translation = megatron::translate(arguments, {.program = program});
  Config config = megatron::to_config(translation);
  megatron::check(config);
  if (discover_launch().rank == 0) {
    for (const megatron::Note& note : translation.notes)
      fmt::print(stderr, "note: {}: {}\n", note.flag, note.text);
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
  // All arguments come here as they are: flags are read by Megatron's rules, not by CLI11's.
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
