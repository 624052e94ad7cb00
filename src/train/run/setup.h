// Derives the settings of the engine and of the data from a configuration.
#pragma once

#include "config/config.h"
#include "model/transformer.h"
#include "train/engine/engine.h"

namespace trireme {

BuildOptions build_options(const Config& config);

// Rejects (exit code 2) starting from, or a new run in, a folder with a checkpoint of another
// system, which would otherwise be ignored.
void refuse_foreign_folders(const Config& config);

// Runs check_run() and checks the run's folders.
void check_start(const Config& config, std::int64_t ranks);

// Device memory of a run on one rank: the engine's and, on the CPU with checkpoint.async, the copy
// from which the checkpoint is written during training.
MemoryPlan planned_memory(const Engine& engine, const Config& config);
// Host memory of a run on a GPU: offloaded data, and that copy.
StoredBytes planned_on_host(const Engine& engine, const Config& config);

// Upper estimate of a rank's other memory. That of its process (scratch of compute threads,
// batches, staging of messages, the program itself) is device memory on the CPU, otherwise host
// memory; a GPU additionally holds the driver's context, workspaces of libraries, and the buffers
// of NCCL or RCCL.
struct MemoryBesides {
  MemoryPlan on_device, on_host;
};
MemoryBesides memory_besides(const Engine& engine, const Config& config, int threads);

// Takes the vocabulary size from the tokenizer if the configuration does not set it; returns the
// end-of-document id, or -1 without a tokenizer.
std::int64_t resolve_vocabulary(Config& config);

}  // namespace trireme
