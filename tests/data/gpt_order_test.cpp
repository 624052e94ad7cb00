// Tests of the GPT sample order against golden orders and by its properties.
#include "data/gpt/gpt_order.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "data/temp_folder.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing_data::expect_error;

template <class T>
std::uint32_t crc(std::span<const T> values) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(values.data()), values.size_bytes()));
}

std::vector<std::int32_t> sizes_of(const json& sizes) {
  if (sizes.is_array()) return sizes.get<std::vector<std::int32_t>>();
  std::vector<std::int32_t> result;
  for (std::uint64_t i = 0; i < sizes["count"].get<std::uint64_t>(); ++i) {
    result.push_back(static_cast<std::int32_t>((i * 2654435761u % (std::uint64_t{1} << 32)) %
                                               sizes["top"].get<std::uint64_t>()));
  }
  return result;
}

// The start positions of all samples and of the end, as two arrays.
struct Starts {
  std::vector<std::int64_t> positions;
  std::vector<std::int32_t> offsets;
};

Starts starts_of(const GptOrder& order, const GptOrderRequest& request,
                 std::span<const std::int32_t> lengths) {
  Starts starts;
  for (std::int64_t k = 0; k <= order.samples(); ++k) {
    const SampleStart start = start_of(order, request.seq_length, k, [&](std::int32_t sequence) {
      return lengths[sequence - request.sequences.begin];
    });
    starts.positions.push_back(start.position);
    starts.offsets.push_back(static_cast<std::int32_t>(start.offset));
  }
  return starts;
}

void expect_equal(const GptOrder& order, const Starts& starts, const json& golden) {
  EXPECT_EQ(order.epochs, golden["epochs"].get<std::int64_t>());
  ASSERT_EQ(order.samples(), golden["count"].get<std::int64_t>());
  if (golden.contains("rows")) {
    EXPECT_THAT(order.sequences,
                ::testing::ElementsAreArray(golden["doc_idx"].get<std::vector<int>>()));
    EXPECT_THAT(order.shuffle,
                ::testing::ElementsAreArray(golden["shuffle"].get<std::vector<unsigned>>()));
    for (std::size_t k = 0; k < starts.positions.size(); ++k) {
      EXPECT_EQ(starts.positions[k], golden["rows"][k][0].get<std::int64_t>()) << "row " << k;
      EXPECT_EQ(starts.offsets[k], golden["rows"][k][1].get<std::int64_t>()) << "row " << k;
    }
  }
  EXPECT_EQ(crc(order.sequences), golden["doc_crc"].get<std::uint32_t>());
  EXPECT_EQ(crc(std::span<const std::int64_t>(starts.positions)),
            golden["position_crc"].get<std::uint32_t>());
  EXPECT_EQ(crc(std::span<const std::int32_t>(starts.offsets)),
            golden["offset_crc"].get<std::uint32_t>());
  EXPECT_EQ(crc(order.shuffle), golden["shuffle_crc"].get<std::uint32_t>());
}

TEST(GptOrder, EqualsGoldenOrders) {
  const json golden = json::parse(read_file(TRIREME_TEST_DATA "/numpy_golden.json"));
  for (const json& test : golden["orders"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    const std::vector<std::int32_t> sizes = sizes_of(test["sizes"]);
    GptOrderRequest request{.sequences = {test["first"], test["last"]},
                            .seq_length = test["seq_length"],
                            .samples = test["samples"],
                            .seed = test["seed"]};
    const std::span<const std::int32_t> lengths(sizes.data() + request.sequences.begin,
                                                static_cast<std::size_t>(request.sequences.size()));
    for (const int threads : {1, 4}) {
      ThreadPool::set_global_size(threads);
      const GptOrder order = build_gpt_order(request, lengths);
      expect_equal(order, starts_of(order, request, lengths), test);
    }
    ThreadPool::set_global_size(0);
  }
}

TEST(GptOrder, EverySampleOnceAndEverySequenceOncePerEpoch) {
  std::vector<std::int32_t> lengths(5000);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int32_t>(i % 17);
  for (const std::int64_t samples : {1, 1000, 2500, 9000}) {
    const GptOrder order = build_gpt_order({{0, 5000}, 16, samples, 3}, lengths);
    EXPECT_GE(order.samples(), samples);
    std::vector<std::uint32_t> seen(order.shuffle.begin(), order.shuffle.end());
    std::sort(seen.begin(), seen.end());
    for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], i);
    std::vector<int> times(lengths.size(), 0);
    for (const std::int32_t sequence : order.sequences) ++times[sequence];
    EXPECT_THAT(times, ::testing::Each(static_cast<int>(order.epochs)));
  }
}

TEST(GptOrder, KeyKnowsWhatDeterminesTheOrder) {
  const std::vector<std::int32_t> lengths{4, 5, 6}, others{4, 6, 5};
  const GptOrderRequest request{{0, 3}, 4, 10, 1};
  const std::uint64_t key = gpt_order_key(request, lengths);
  EXPECT_EQ(key, gpt_order_key(request, lengths));
  EXPECT_NE(key, gpt_order_key(request, others));
  for (const GptOrderRequest& other :
       {GptOrderRequest{{1, 4}, 4, 10, 1}, GptOrderRequest{{0, 3}, 5, 10, 1},
        GptOrderRequest{{0, 3}, 4, 11, 1}, GptOrderRequest{{0, 3}, 4, 10, 2}}) {
    EXPECT_NE(key, gpt_order_key(other, lengths));
  }
}

TEST(GptOrder, RefusesWhatCannotBe) {
  const std::vector<std::int32_t> empty{0, 0}, some{3, 4};
  expect_error(ExitCode::bad_input, {"no token"}, [&] {
    build_gpt_order({{0, 2}, 4, 1, 1}, empty);
  });
  expect_error(ExitCode::bad_input, {"no token"}, [&] { build_gpt_order({{0, 0}, 4, 1, 1}, {}); });
  expect_error(ExitCode::bad_input, {"fewer iterations"}, [&] {
    build_gpt_order({{0, 2}, 4, std::int64_t{1} << 31, 1}, std::vector<std::int32_t>{1, 0});
  });
  expect_error(ExitCode::bad_input, {"2^63"}, [&] {
    build_gpt_order({{0, 2}, 4, std::int64_t{1} << 62, 1}, some);
  });
}

}  // namespace
}  // namespace trireme
