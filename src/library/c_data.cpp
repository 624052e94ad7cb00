// The C interface: token files, and the samples of a run.
#include <algorithm>

#include "base/thread_pool.h"
#include "data/dataset.h"
#include "data/indexed_dataset.h"
#include "library/c_handles.h"
#include "train/run/setup.h"
#include "train/schedule/batch_schedule.h"
#include "train/schedule/split_data.h"

struct trireme_tokens {
  trireme::IndexedDataset index;
  trireme::MappedFile bin;
  std::string dtype;
};

struct trireme_samples {
  trireme::BatchSchedule batches;
  std::int64_t steps;
  std::shared_ptr<const trireme::Dataset> dataset;
};

namespace trireme::c {
namespace {

Split split_of(const std::string& name) {
  for (const Split split : {Split::train, Split::valid, Split::test})
    if (name == name_of(split)) return split;
  fail_input("there is no split \"{}\": expected train, valid or test", name);
}

void check_range(std::int64_t first, std::int64_t count, std::int64_t size, const char* what) {
  if (first < 0 || count < 0 || first > size || count > size - first)
    fail_input("{} {} to {} were requested, but there are {}", what, first, first + count, size);
}

// Rows of the caller's arrays, of which some may be null.
class SampleRows {
 public:
  SampleRows(std::int64_t seq, std::int32_t* tokens, std::int32_t* targets, float* loss_weights,
             std::int32_t* positions, std::int32_t* first_visible)
      : seq_(seq), given_{tokens,        targets, loss_weights, positions,
                          first_visible, nullptr, nullptr,      nullptr} {}

  // Fills row `i`; the values that a sample does not set are those of a new batch.
  void fill(const Dataset& dataset, std::int64_t sample, std::int64_t i) const {
    Batch fresh(1, seq_);
    dataset.fill(sample, fresh.row(0));
    const auto copy = [&](const auto& from, auto* to) {
      if (to) std::ranges::copy(from, to + i * seq_);
    };
    copy(fresh.tokens, given_.tokens);
    copy(fresh.targets, given_.targets);
    copy(fresh.loss_weights, given_.loss_weights);
    copy(fresh.positions, given_.positions);
    copy(fresh.first_visible, given_.first_visible);
  }

 private:
  std::int64_t seq_;
  BatchRow given_;
};

}  // namespace
}  // namespace trireme::c

using namespace trireme::c;

trireme_status trireme_tokens_open(const char* prefix, trireme_tokens** tokens) {
  return guarded([&] {
    trireme::IndexedDataset index(text_of(prefix, "the prefix of the token files"));
    trireme::MappedFile bin(trireme::fs::path(index.prefix() + ".bin"));
    if (bin.bytes().size() != index.bin_bytes())
      trireme::fail_input("'{}.bin' is being replaced: open it again", index.prefix());
    std::string dtype(name_of(index.token_type()));
    *tokens = new trireme_tokens{std::move(index), std::move(bin), std::move(dtype)};
  });
}

void trireme_tokens_close(trireme_tokens* tokens) {
  delete tokens;
}

void trireme_tokens_info_of(const trireme_tokens* tokens, trireme_tokens_info* info) {
  const trireme::IndexedDataset& d = tokens->index;
  *info = {d.sequences(), d.documents(), d.tokens(), tokens->dtype.c_str(),
           size_of(d.token_type())};
}

trireme_status trireme_tokens_sequence(const trireme_tokens* tokens, int64_t index,
                                       const void** data, int64_t* count) {
  return guarded([&] {
    check_range(index, 1, tokens->index.sequences(), "sequences");
    *data = tokens->bin.bytes().data() + tokens->index.offset(index);
    *count = tokens->index.length(index);
  });
}

trireme_status trireme_tokens_document(const trireme_tokens* tokens, int64_t document,
                                       int64_t* sequence) {
  return guarded([&] {
    check_range(document, 1, tokens->index.documents() + 1, "documents");
    *sequence = tokens->index.document_start(document);
  });
}

trireme_status trireme_samples_open(const trireme_config* config, const char* split, int64_t ranks,
                                    trireme_samples** samples) {
  return guarded([&] {
    trireme::Config values = config->values();
    if (ranks == 0) ranks = trireme::fewest_ranks_of(values.parallel);
    trireme::check_start(values, ranks);
    const std::int64_t eod_id = resolve_vocabulary(values);
    auto dataset = open_split(values, eod_id, split_of(text_of(split, "the split")), 0, ranks);
    *samples = new trireme_samples{trireme::BatchSchedule(values, ranks),
                                   ordered_steps_of(values, ranks), std::move(dataset)};
  });
}

void trireme_samples_close(trireme_samples* samples) {
  delete samples;
}

void trireme_samples_info_of(const trireme_samples* samples, trireme_samples_info* info) {
  *info = {samples->dataset->size(), samples->dataset->seq_length(), samples->steps};
}

trireme_status trireme_samples_of_step(const trireme_samples* samples, int64_t step, int64_t* first,
                                       int64_t* count) {
  return guarded([&] {
    if (step < 1 || step > samples->steps)
      trireme::fail_input("the run has steps 1 to {}, but step {} was requested", samples->steps,
                          step);
    *first = samples->batches.samples(step - 1);
    *count = samples->batches.batch_size(*first);
  });
}

trireme_status trireme_samples_read(const trireme_samples* samples, int64_t first, int64_t count,
                                    int32_t* tokens, int32_t* targets, float* loss_weights,
                                    int32_t* positions, int32_t* first_visible) {
  return guarded([&] {
    const trireme::Dataset& dataset = *samples->dataset;
    check_range(first, count, dataset.size(), "samples");
    const SampleRows rows(dataset.seq_length(), tokens, targets, loss_weights, positions,
                          first_visible);
    for (std::int64_t i = 0; i < count; ++i) rows.fill(dataset, first + i, i);
  });
}
