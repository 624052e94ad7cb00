// Global batch size as a pure function of consumed samples (ramp-up, schedule).
#pragma once

#include <cstdint>
#include <vector>

#include "config/batch_sizes.h"
#include "config/config.h"

namespace trireme {

class BatchSchedule {
 public:
  // For a configuration that passed validate_layout, on `world_size` ranks. A batch size that does
  // not divide into micro-batches is refused (fail_input), the sizes on the way of a ramp included.
  BatchSchedule(const Config& config, std::int64_t world_size);

  // Samples of the step that begins after `consumed` samples.
  std::int64_t batch_size(std::int64_t consumed) const;

  // Micro-batches that each data-parallel rank computes in that step.
  std::int64_t micro_batches(std::int64_t consumed) const;

  // Further steps of a run over `samples` samples that has consumed `consumed`: as many whole
  // batches as fit, but a ramp is always finished. With a schedule the last step is the one that
  // reaches `samples`. Both as upstream counts them.
  std::int64_t steps(std::int64_t samples, std::int64_t consumed = 0) const;

  // Samples that the first `steps` steps consume.
  std::int64_t samples(std::int64_t steps) const;

 private:
  void check(std::int64_t size) const;

  std::int64_t micro_batch_size_;
  std::int64_t data_parallel_size_;
  std::int64_t final_size_;
  std::int64_t first_size_;
  std::int64_t increment_ = 0;           // 0: no ramp
  std::int64_t ramp_samples_ = 0;        // while consumed <= this, the ramp decides
  std::vector<BatchSizeFrom> schedule_;  // empty: none
};

}  // namespace trireme
