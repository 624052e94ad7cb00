// The micro-batches of one data-parallel rank, made ready ahead of training.
#pragma once

#include <cstdint>
#include <memory>

#include "data/batch.h"
#include "data/dataset.h"

namespace trireme {

struct LoaderConfig {
  std::int64_t micro_batch_size = 1;
  std::int64_t dp_rank = 0, dp_size = 1;
  std::int64_t consumed_samples = 0;  // where to begin
  std::int64_t prefetch = 4;          // micro-batches kept ready, at least 1
  int threads = 1;                    // that make them
};

// Micro-batch k after `consumed` samples takes, on rank r, the samples
// [consumed + k * mbs * dp + r * mbs, + mbs). A step of any global batch size consumes whole rounds
// of mbs * dp samples, so that steps need not be known here: a ramp-up changes nothing.
//
// One caller at a time. Errors of the background threads come out of next(), in order.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderConfig& config);
  // Stops the threads.
  ~Loader();

  // The next micro-batch. Throws bad_input past the end of the dataset.
  Batch next();

  // Continues after `consumed_samples` samples.
  void seek(std::int64_t consumed_samples);

  // Samples that all ranks together have consumed with the micro-batches returned so far.
  std::int64_t consumed_samples() const;

  const Dataset& dataset() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
