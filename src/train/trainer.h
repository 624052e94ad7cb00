// The main job: train a model from a configuration, from the beginning or from where a checkpoint
// left off.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "comm/transport.h"
#include "config/config.h"

namespace trireme {

struct TrainSummary {
  std::int64_t steps = 0;        // done, in all processes so far
  double loss = 0;               // of the last step
  double valid_loss = 0;         // of the last evaluation; 0 if there was none
  double tokens_per_second = 0;  // of this process's steps
  double seconds = 0;            // spent in this process's steps
  // done: all steps. stopped: as planned, by train.exit_interval or exit_duration_minutes.
  // interrupted: by a signal. Either way everything is saved, and the same command goes on.
  enum class End { done, stopped, interrupted } end = End::done;
};

// "done", "stopped" or "interrupted", as in status.json.
std::string_view name_of(TrainSummary::End end);

struct TrainerOptions {
  // Every value has memory of its own and scratch is filled with NaN before each phase: slower, the
  // same bits. A difference is a bug of the memory planner.
  bool paranoid = false;
};

class Trainer {
 public:
  // Checks the configuration, opens the data, plans the memory and prints both to `out` (not
  // owned). Everything that can be refused is refused here, before anything is allocated. With a
  // transport, which outlives the trainer, all of its ranks call this and run() together; the first
  // one prints.
  Trainer(Config config, std::FILE* out, const TrainerOptions& options = {},
          Transport* transport = nullptr);
  ~Trainer();

  // Writes the graphs of all segments with their plans: FOLDER/<segment>.txt and .dot.
  void dump_graphs(const std::string& folder) const;

  // Allocates, loads what there is to load, trains, saves.
  TrainSummary run();

 private:
  struct Parts;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> silence_;  // where the other ranks print
  std::unique_ptr<Parts> parts_;
};

}  // namespace trireme
