// `trireme train` once it has a configuration; shared by pretrain-gpt and pretrain-bert.
#pragma once

#include <string>

#include "train/trainer.h"

namespace trireme::cli {

struct TrainCommand {
  bool json = false;  // the summary as JSON on stdout; progress goes to stderr
  TrainerOptions options;
  std::string dump_graph;  // folder: write the graphs there and stop
  int nproc = 0;           // processes to start with mpirun; 0: run in this one
};

// Trains. Throws trireme::Error for what goes wrong, and with exit code 3 where the run was
// interrupted and saved.
TrainSummary train(Config config, const TrainCommand& command);

}  // namespace trireme::cli
