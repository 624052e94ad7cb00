// The folder of a run as an offline run of Weights & Biases, which `wandb sync` sends.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace trireme {

struct WandbOptions {
  fs::path out = ".";  // the run goes to out/wandb/offline-run-...
  std::string project = "trireme", entity;
};

struct WandbExport {
  fs::path folder;
  std::int64_t rows = 0;           // steps
  std::int64_t damaged = 0;        // lines of the metrics that were left out
  std::int64_t first_damaged = 0;  // its number, from 1
  bool unfinished = false;         // as status.json says: it trains, or was killed
};

// Every step of metrics.jsonl becomes a row with its values to the last bit; what is not finite
// (null) is left out. Times come from timings.jsonl: training without pauses between starts.
// Nothing stays of what could not be written. Refused (exit code 2): a folder that is not that of a
// run, one to write that is there already.
WandbExport export_to_wandb(const fs::path& run, const WandbOptions& options);

}  // namespace trireme
