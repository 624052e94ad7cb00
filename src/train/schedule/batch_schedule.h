// Global batch size as a pure function of consumed samples (ramp-up, schedule).
#pragma once

#include <cstdint>
#include <vector>

#include "config/batch_sizes.h"
#include "config/config.h"

namespace trireme {

class BatchSchedule {
 public:
  // For a configuration that passed validate_layout, on `world_size` ranks. Rejects (fail_input)
  // batch sizes that do not divide into micro-batches, including those within a ramp-up.
  BatchSchedule(const Config& config, std::int64_t world_size);

  // Returns the number of samples of the step that starts after `consumed` samples.
  std::int64_t batch_size(std::int64_t consumed) const;

  // Returns the number of micro-batches per data-parallel rank in that step.
  std::int64_t micro_batches(std::int64_t consumed) const;

  // Returns the remaining steps of a run over `samples` samples that has consumed `consumed`: only
  // full batches, but a ramp-up is always finished. With a schedule, the last step is the one that
  // reaches `samples`. Both rules match Megatron's.
  std::int64_t steps(std::int64_t samples, std::int64_t consumed = 0) const;

  // Returns the number of samples consumed by the first `steps` steps.
  std::int64_t samples(std::int64_t steps) const;

 private:
  void check(std::int64_t size) const;

  std::int64_t micro_batch_size_;
  std::int64_t data_parallel_size_;
  std::int64_t final_size_;
  std::int64_t first_size_;
  std::int64_t increment_ = 0;           // 0: no ramp-up
  std::int64_t ramp_samples_ = 0;        // the ramp-up applies while consumed <= this
  std::vector<BatchSizeFrom> schedule_;  // empty: none
};

}  // namespace trireme
