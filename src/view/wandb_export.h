// Exports a run's folder as an offline run of Weights & Biases, to be uploaded by `wandb sync`.
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
  std::int64_t damaged = 0;        // invalid lines of the metrics, which were skipped
  std::int64_t first_damaged = 0;  // number of the first one, from 1
  bool unfinished = false;         // by status.json: still training, or killed
};

// Each step of metrics.jsonl becomes a row with exact values; non-finite ones (null) are omitted.
// Times come from timings.jsonl: training time without pauses between starts. On errors no partial
// output remains. Rejects (exit code 2) a folder that is not a run's, and an output folder that
// already exists.
WandbExport export_to_wandb(const fs::path& run, const WandbOptions& options);

}  // namespace trireme
