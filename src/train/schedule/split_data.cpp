// Opens a split for all samples of a run, since their order depends on the total number.
#include "train/schedule/split_data.h"

#include <algorithm>

#include "base/error.h"
#include "data/dataset_builder.h"
#include "train/schedule/batch_schedule.h"

namespace trireme {

std::int64_t fewest_ranks_of(const ParallelConfig& p) {
  return p.tp * p.pp * p.cp;
}

std::int64_t ordered_steps_of(const Config& config, std::int64_t ranks) {
  return config.train.iters > 0 ? config.train.iters
                                : BatchSchedule(config, ranks).steps(config.train.samples);
}

std::shared_ptr<const Dataset> open_split(const Config& config, std::int64_t eod_id, Split split,
                                          std::int64_t samples, std::int64_t ranks) {
  const std::int64_t of_run =
      sample_counts(config, ordered_steps_of(config, ranks), ranks).of(split);
  DatasetBuilder builder(config, config.model.vocab_size, eod_id);
  auto data = builder.build(split, std::max(of_run, samples));
  if (!data) {
    fail_input(
        "the run has no data for {}: its configuration assigns no share and no files to that "
        "split",
        name_of(split));
  }
  return data;
}

}  // namespace trireme
