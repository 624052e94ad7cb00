// Building of the GPT sample order.
#include "data/gpt/gpt_order.h"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <numeric>
#include <thread>

#include "base/counted.h"
#include "base/divide.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/machine_memory.h"
#include "base/thread.h"
#include "base/thread_pool.h"
#include "data/numpy_random.h"

namespace trireme {
namespace {

struct Arrays {
  std::vector<std::int32_t> sequences;
  std::vector<std::int64_t> block_tokens;
  std::vector<std::uint32_t> shuffle;
};

// The numbers that decide the sizes of all arrays.
struct Plan {
  std::int64_t tokens = 0;  // of one epoch
  std::int64_t epochs = 1;
  std::int64_t samples = 0;  // in all epochs
  bool last_epoch_apart = false;
  std::int64_t samples_before_last = 0;  // of all epochs but the last; if that is apart
};

Plan make_plan(const GptOrderRequest& request, std::span<const std::int32_t> lengths) {
  Plan plan;
  const std::int64_t length = request.seq_length;
  plan.tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (plan.tokens == 0) {
    fail_input("this split has no token in its {}", counted(lengths.size(), "sequence"));
  }
  std::int64_t wanted = 0, all = 0;
  if (request.samples >= 0) {
    if (__builtin_mul_overflow(request.samples, length, &wanted)) {
      fail_input("{} samples of {} tokens are more than 2^63 tokens", request.samples, length);
    }
    plan.epochs = wanted / plan.tokens + 1;  // the smallest that has a token more than wanted
  }
  if (__builtin_mul_overflow(plan.epochs, plan.tokens, &all)) {
    fail_input("{} epochs of {} tokens are more than 2^63 tokens", plan.epochs, plan.tokens);
  }
  plan.samples = (all - 1) / length;
  if (plan.epochs > 1) {
    plan.samples_before_last = ((plan.epochs - 1) * plan.tokens - 1) / length;
    const std::int64_t per_epoch = (plan.tokens - 1) / length;
    plan.last_epoch_apart = request.samples - plan.samples_before_last <
                            static_cast<std::int64_t>(0.8 * static_cast<double>(per_epoch));
  }
  return plan;
}

// Refuses what this machine cannot hold before anything is allocated.
void check_size(const Plan& plan, std::size_t sequences) {
  if (plan.samples >= std::numeric_limits<std::uint32_t>::max() - 1) {
    fail_input(
        "{} samples exceed the maximum of 2^32 - 3: use fewer iterations or longer sequences",
        plan.samples);
  }
  const double bytes = 4.0 * static_cast<double>(plan.samples) +
                       4.5 * static_cast<double>(plan.epochs) * static_cast<double>(sequences);
  const auto memory = static_cast<double>(machine_memory_bytes());
  if (bytes > memory) {
    fail_input(
        "the order of {} in {} needs {:.1f} GB, more than the {:.1f} GB of memory of this machine: "
        "use fewer iterations",
        counted(plan.samples, "sample"), counted(plan.epochs, "epoch"), bytes / 1e9, memory / 1e9);
  }
}

std::vector<std::int32_t> shuffled_sequences(const GptOrderRequest& request, const Plan& plan,
                                             NumpyRandom& random) {
  const std::int64_t count = request.sequences.size();
  std::vector<std::int32_t> all(static_cast<std::size_t>(plan.epochs * count));
  for (std::int64_t epoch = 0; epoch < plan.epochs; ++epoch) {
    const auto from = all.begin() + epoch * count;
    std::iota(from, from + count, static_cast<std::int32_t>(request.sequences.begin));
  }
  const std::int64_t together = (plan.epochs - plan.last_epoch_apart) * count;
  const std::span<std::int32_t> span(all);
  random.shuffle(span.first(static_cast<std::size_t>(together)));
  random.shuffle(span.subspan(static_cast<std::size_t>(together)));
  return all;
}

std::vector<std::uint32_t> shuffled_samples(const Plan& plan, NumpyRandom& random) {
  std::vector<std::uint32_t> all(static_cast<std::size_t>(plan.samples));
  std::iota(all.begin(), all.end(), 0u);
  const auto together =
      static_cast<std::size_t>(plan.last_epoch_apart ? plan.samples_before_last : plan.samples);
  const std::span<std::uint32_t> span(all);
  random.shuffle(span.first(together));
  random.shuffle(span.subspan(together));
  return all;
}

std::vector<std::int64_t> tokens_before_blocks(const GptOrderRequest& request,
                                               std::span<const std::int32_t> lengths,
                                               std::span<const std::int32_t> sequences) {
  constexpr std::int64_t blocks_in_task = 4096;
  const auto first = static_cast<std::int32_t>(request.sequences.begin);
  const auto count = static_cast<std::int64_t>(sequences.size());
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(ceil_div(count, GptOrder::block)));
  const auto blocks = static_cast<std::int64_t>(tokens.size());
  parallel_ranges(blocks, blocks_in_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t last = std::min(count, (b + 1) * GptOrder::block);
      for (std::int64_t p = b * GptOrder::block; p < last; ++p) {
        tokens[b] += lengths[sequences[p] - first];
      }
    }
  });
  std::exclusive_scan(tokens.begin(), tokens.end(), tokens.begin(), std::int64_t{0});
  return tokens;
}

}  // namespace

GptOrder build_gpt_order(const GptOrderRequest& request, std::span<const std::int32_t> lengths) {
  TRIREME_CHECK(request.seq_length > 0 &&
                request.sequences.size() == static_cast<std::int64_t>(lengths.size()));
  if (request.sequences.end > std::numeric_limits<std::int32_t>::max()) {
    fail_input("{} sequences exceed the maximum of 2^31 - 1: split the file",
               request.sequences.end);
  }
  const Plan plan = make_plan(request, lengths);
  check_size(plan, lengths.size());
  auto arrays = std::make_shared<Arrays>();
  NumpyRandom random(request.seed);
  arrays->sequences = shuffled_sequences(request, plan, random);
  // One generator serves both shuffles, so they follow each other; the sums of tokens need no
  // random number and are computed at the same time.
  std::exception_ptr error;
  std::thread shuffler = start_thread("stop other programs", [&] {
    try {
      arrays->shuffle = shuffled_samples(plan, random);
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    arrays->block_tokens = tokens_before_blocks(request, lengths, arrays->sequences);
  } catch (...) {
    shuffler.join();
    throw;
  }
  shuffler.join();
  if (error) std::rethrow_exception(error);
  return {plan.epochs, arrays->sequences, arrays->block_tokens, arrays->shuffle, arrays};
}

std::uint64_t gpt_order_key(const GptOrderRequest& request, std::span<const std::int32_t> lengths) {
  constexpr std::uint64_t version = 1;  // of the order's definition
  const std::array<std::uint64_t, 6> numbers{version,
                                             static_cast<std::uint64_t>(request.sequences.begin),
                                             static_cast<std::uint64_t>(request.sequences.end),
                                             static_cast<std::uint64_t>(request.seq_length),
                                             static_cast<std::uint64_t>(request.samples),
                                             request.seed};
  Hasher hasher;
  hasher.update(numbers.data(), sizeof(numbers));
  hasher.update(lengths.data(), lengths.size_bytes());
  return hasher.digest();
}

}  // namespace trireme
