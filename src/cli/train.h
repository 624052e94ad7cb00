// `trireme train` after parsing its configuration; shared by pretrain-gpt and pretrain-bert.
#pragma once

#include <string>

#include "train/trainer.h"

namespace trireme::cli {

struct TrainCommand {
  bool json = false;  // the summary as JSON on stdout; progress goes to stderr
  TrainerOptions options;
  std::string dump_graph;  // folder: write graphs there and exit
  int nproc = 0;           // processes to start with mpirun; 0: run in this one
};

// Trains. Throws trireme::Error on failure, with exit code 3 if the run was interrupted and
// saved.
TrainSummary train(Config config, const TrainCommand& command);

}  // namespace trireme::cli
