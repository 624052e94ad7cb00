// Entry point of the program `trireme`: parses the command line and turns errors into exit codes.
#include <csignal>
#include <cstdio>
#include <exception>

#include "base/as_error.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/finite.h"
#include "cli/usage.h"
#include "cli/variables.h"

namespace trireme {
namespace {

ExitCode run(int argc, char** argv) {
  CLI::App app{"Trireme pre-trains large language models.", "trireme"};
  app.set_version_flag("--version", "trireme " TRIREME_VERSION);
  app.require_subcommand(1);
  cli::add_try(app);
  cli::add_train(app);
  cli::add_config(app);
  cli::add_plan(app);
  cli::add_slurm(app);
  cli::add_supervise(app);
  cli::add_interval(app);
  cli::add_view(app);
  cli::add_export_wandb(app);
  cli::add_pretrain(app);
  cli::add_generate(app);
  cli::add_eval(app);
  cli::add_score(app);
  cli::add_bench(app);
  cli::add_profile(app);
  cli::add_doctor(app);
  cli::add_tokenizer(app);
  cli::add_preprocess(app);
  cli::add_data(app);
  cli::add_inspect(app);
  cli::add_convert(app);
  cli::add_diff(app);
  cli::add_replay(app);
  cli::add_parity(app);
  cli::add_import_args(app);
  cli::add_completion(app);
  cli::add_man(app);
  cli::require_finite_numbers(app);
  cli::warn_of_misspelt_variables();
  try {
    app.parse(argc, argv);
    return ExitCode::ok;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      std::fprintf(stderr, "%s\n", cli::usage_error(app, error, argc, argv).c_str());
      return ExitCode::bad_input;
    }
    if (const std::string unknown = cli::unknown_command(app, argc, argv); !unknown.empty()) {
      std::fprintf(stderr, "%s\n", unknown.c_str());
      return ExitCode::bad_input;
    }
    app.exit(error);  // prints the output of --help and --version
    return ExitCode::ok;
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  // Exceeding the file size limit must be an error with a message, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  // A closed pipe (| head, or a tee ended by Ctrl-C) must not end a run before it has
  // saved.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const std::exception& caught) {
    const Error error = as_error(caught);
    // Only one of several ranks prints the error; the others exit silently.
    if (*error.what())
      std::fprintf(stderr, "trireme: %s\n", printable_message(error.what()).c_str());
    return static_cast<int>(error.code());
  }
}
