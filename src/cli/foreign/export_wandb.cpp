// `trireme export-wandb`: exports runs as offline runs of Weights & Biases.
#include <fmt/format.h>

#include "base/counted.h"
#include "cli/commands.h"
#include "view/wandb_export.h"

namespace trireme::cli {
namespace {

struct ExportArguments {
  std::vector<std::string> runs;
  std::string out = ".";
  WandbOptions options;
};

void export_run(const std::string& run, const WandbOptions& options) {
  const WandbExport written = export_to_wandb(run, options);
  if (written.damaged > 0) {
    fmt::print(stderr,
               "warning: '{}/metrics.jsonl': {} of its lines cannot be read and {} skipped, first "
               "line {}\n",
               run, written.damaged, written.damaged > 1 ? "are" : "is", written.first_damaged);
  }
  if (written.unfinished) {
    fmt::print(stderr,
               "note: '{}' has not ended (it is still training, or was killed): what it has "
               "written so far is exported as a finished run\n",
               run);
  }
  fmt::print("{}; to upload: wandb sync {}\n", counted(written.rows, "step"),
             written.folder.string());
}

}  // namespace

void add_export_wandb(CLI::App& app) {
  auto* command = app.add_subcommand(
      "export-wandb", "Export runs as offline runs of Weights & Biases, for `wandb sync`");
  auto arguments = std::make_shared<ExportArguments>();
  command->add_option("runs", arguments->runs, "Folders of runs (run.dir)")->required();
  command->add_option("--out", arguments->out, "Folder to write wandb/offline-run-... to")
      ->capture_default_str();
  command->add_option("--project", arguments->options.project, "Project that the runs belong to")
      ->capture_default_str();
  command->add_option("--entity", arguments->options.entity,
                      "User or team (default: that of the account used for the upload)");
  command->callback([arguments] {
    arguments->options.out = arguments->out;
    for (const std::string& run : arguments->runs) export_run(run, arguments->options);
  });
}

}  // namespace trireme::cli
