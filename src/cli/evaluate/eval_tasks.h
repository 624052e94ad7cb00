// Accuracies and perplexities of tasks, for `trireme eval --tasks` and train.eval_tasks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generate/trained_model.h"
#include "train/trainer.h"

namespace trireme::cli {

// The text of --help on the files' rows.
std::string task_files_help();

// Evaluates a checkpoint on files of tasks, for train.eval_tasks; nullopt if a signal asks the run
// to end. Refuses (exit code 2), when it is made, files that are not of tasks and files of the same
// name.
std::function<std::optional<std::vector<TaskScore>>(const fs::path& checkpoint)> task_evaluation(
    const std::vector<std::string>& files);

// Reads all files, then evaluates one after the other and prints a line for each, or one JSON
// object.
void evaluate_task_files(TrainedModel& model, const std::vector<std::string>& files, bool json);

}  // namespace trireme::cli
