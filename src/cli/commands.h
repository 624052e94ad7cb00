// The subcommands of `trireme`; each file of this module defines one.
#pragma once

#include <CLI/CLI.hpp>

namespace trireme::cli {

// Each adds a subcommand with its options to the program. Its callback runs the command and throws
// trireme::Error on failure; main() prints the message and returns the exit code. (One line per
// command, in the order of --help.)
void add_try(CLI::App& app);
void add_train(CLI::App& app);
void add_config(CLI::App& app);
void add_plan(CLI::App& app);
void add_slurm(CLI::App& app);
void add_supervise(CLI::App& app);
void add_interval(CLI::App& app);
void add_view(CLI::App& app);
void add_export_wandb(CLI::App& app);
void add_pretrain(CLI::App& app);
void add_generate(CLI::App& app);
void add_eval(CLI::App& app);
void add_score(CLI::App& app);
void add_bench(CLI::App& app);
void add_profile(CLI::App& app);
void add_doctor(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_preprocess(CLI::App& app);
void add_data(CLI::App& app);
void add_inspect(CLI::App& app);
void add_convert(CLI::App& app);
void add_diff(CLI::App& app);
void add_replay(CLI::App& app);
void add_parity(CLI::App& app);
void add_import_args(CLI::App& app);
void add_completion(CLI::App& app);
void add_man(CLI::App& app);

}  // namespace trireme::cli
