// From a configuration to what the engine and the data want to know.
#pragma once

#include "config/config.h"
#include "model/transformer.h"
#include "train/engine.h"

namespace trireme {

BuildOptions build_options(const Config& config);

// Rejects (exit code 2) a start from, or a new run in, a folder that holds a checkpoint of another
// system: it would be ignored.
void refuse_foreign_folders(const Config& config);

// check_run(), and what the folders of the run say against a start.
void check_start(const Config& config, std::int64_t ranks);

// Device memory of a run on one rank: the engine's, and on the CPU with checkpoint.async the copy
// that is written during training.
MemoryPlan planned_memory(const Engine& engine, const Config& config);
// Host memory of a run on a GPU: what is offloaded, and that copy.
StoredBytes planned_on_host(const Engine& engine, const Config& config);

// Additional memory of a rank, estimated from above. Of the process: scratch of its compute
// threads, batches, staging of messages, the program itself. On the CPU that is memory of the
// device, otherwise of its host, and the GPU has the driver's context and the buffers of NCCL or
// RCCL.
struct MemoryBesides {
  MemoryPlan on_device, on_host;
};
MemoryBesides memory_besides(const Engine& engine, const Config& config, int threads);

// Takes the vocabulary from the tokenizer where the configuration does not give it; returns the id
// that ends a document, or -1 without a tokenizer.
std::int64_t resolve_vocabulary(Config& config);

}  // namespace trireme
