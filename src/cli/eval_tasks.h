// `trireme eval --tasks`: accuracies and perplexities of evaluation tasks.
#pragma once

#include <string>
#include <vector>

#include "generate/trained_model.h"

namespace trireme::cli {

// The text of --help on the files' rows.
std::string task_files_help();

// Reads all files, then evaluates one after the other and prints a line for each, or one JSON
// object.
void evaluate_task_files(TrainedModel& model, const std::vector<std::string>& files, bool json);

}  // namespace trireme::cli
