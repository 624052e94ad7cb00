// `trireme diff`: compares the tensors, positions and settings of two checkpoints.
#include <limits>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/compare/diff_report.h"
#include "cli/inspect/report.h"
#include "compare/comparison.h"
#include "compare/contents.h"

namespace trireme::cli {
namespace {

constexpr std::size_t shown_rows = 20;

struct DiffOptions {
  std::string a, b;
  ForeignOptions foreign;
  CompareOptions compare;
  bool all_tensors = false, quiet = false, as_json = false;
};

void refuse_one_twice(const Contents& a, const Contents& b) {
  if (!fs::equivalent(a.folder, b.folder)) return;
  fail_input("A and B are the same folder, '{}': give two different checkpoints",
             a.folder.string());
}

void diff(const DiffOptions& options) {
  const Contents a = open_contents(options.a, options.foreign);
  const Contents b = open_contents(options.b, options.foreign);
  refuse_one_twice(a, b);
  const Comparison found = compare(a, b, options.compare);
  if (!options.quiet) {
    const std::size_t rows =
        options.all_tensors ? std::numeric_limits<std::size_t>::max() : shown_rows;
    print_out(options.as_json ? comparison_json(a, b, found) : comparison_text(a, b, found, rows));
  }
  // Without a message: a difference needs only the exit code.
  if (!found.is_equal()) throw Error(ExitCode::failed, "");
}

}  // namespace

void add_diff(CLI::App& app) {
  const auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "diff", "Compare two checkpoints of any formats, tensor by tensor and bit by bit");
  command->footer(
      "Exit code: 0 equal, 1 different, 2 wrong input. Elements of the same type are equal if "
      "their bits are equal (0.0 and -0.0 differ); tensors of two types differ, and their values "
      "are compared.\n"
      "The relative difference is |a - b| over the larger of |a| and |b|. If a folder contains "
      "only weights, only the weights are compared.\n");
  constexpr const char* what =
      "Folder of a run or checkpoint, or of another program's checkpoint in a format that convert "
      "reads";
  command->add_option("a", options->a, what)->required();
  command->add_option("b", options->b, what)->required();
  command->add_flag("--weights", options->compare.weights_only,
                    "Compare only the weights, not the optimizer states or positions");
  command->add_flag("--rounded", options->compare.rounded,
                    "Count a tensor as equal if it is the other one rounded to its own type");
  command->add_flag("--tensors", options->all_tensors,
                    "List all tensors that differ; default: the 20 with the largest differences");
  command->add_option("--config", options->foreign.config,
                      "For folders whose files do not describe their model, as for convert");
  command->add_option("--set", options->foreign.settings,
                      "section.key=value: a setting of the model that a folder of another program "
                      "does not contain, as for convert");
  command->add_flag("--quiet,-q", options->quiet, "Print nothing; the exit code is the result");
  command->add_flag("--json", options->as_json,
                    "Print one JSON object, with all tensors that differ");
  command->callback([options] { stoppable([&] { diff(*options); }); });
}

}  // namespace trireme::cli
