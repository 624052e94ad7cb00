// `trireme pretrain-gpt` and `pretrain-bert`: train from the flags of an existing Megatron script.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/train.h"
#include "comm/transport.h"
#include "megatron/translate.h"

namespace trireme::cli {
namespace {

// Takes `flag` out of the arguments; whether it was there.
bool take(std::vector<std::string>& arguments, const char* flag) {
  return std::erase(arguments, flag) > 0;
}

// Takes "--nproc N" or "--nproc=N" out of the arguments; 0 where it is absent.
int take_nproc(std::vector<std::string>& arguments) {
  const std::string flag = "--nproc";
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    const bool joined = at->starts_with(flag + "=");
    if (*at != flag && !joined) continue;
    const auto value = joined ? at : at + 1;
    const std::string text = value == arguments.end() ? ""
                             : joined                 ? value->substr(flag.size() + 1)
                                                      : *value;
    int count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > 1 << 16)
      fail_input("--nproc: expected a number of processes from 1 to 65536, found '{}'", text);
    arguments.erase(at, value + 1);
    return count;
  }
  return 0;
}

void pretrain(megatron::Program program, std::vector<std::string> arguments) {
  if (take(arguments, "--help") || take(arguments, "-h")) {
    fmt::print("{}", megatron::help(program));
    return;
  }
  const bool print_config = take(arguments, "--print-config");
  TrainCommand command;
  command.json = take(arguments, "--json");
  command.nproc = take_nproc(arguments);
  const megatron::Translation translation = megatron::translate(arguments, {.program = program});
  Config config = megatron::to_config(translation);
  megatron::check(config);
  if (command.nproc > 0 && !print_config) {
    validate_layout(config, command.nproc);
    launch_processes(command.nproc, config.run.dir);
  }
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
  // All arguments are passed on as they are: flags are read by Megatron's rules, not by CLI11's.
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
