// Tests of gathering and summing table rows on the GPU against the CPU, bit for bit.
#include <random>

#include "backend/cpu/kernels.h"
#include "backend/gpu/both_devices.h"
#include "backend/gpu_workspace.h"

namespace trireme {
namespace {

std::vector<std::int32_t> random_ids(std::size_t count, int largest, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<std::int32_t> distribution(0, largest);
  std::vector<std::int32_t> ids(count);
  for (std::int32_t& id : ids) id = distribution(generator);
  return ids;
}

class Embedding : public OnBothWaves {
 protected:
  std::int64_t grad_workspace(Device& device, std::int64_t rows, std::int64_t local_ids) {
    return &device == &gpu_ ? gpu::embedding_grad_workspace(rows, local_ids)
                            : 4 * cpu::embedding_grad_workspace(rows, local_ids);
  }
};
TRIREME_ON_BOTH_WAVES(Embedding);

struct Tables {
  std::int64_t cols, first_id, local_ids;
  bool positions, position_numbers, types;
};

TEST_P(Embedding, AddsTheRowsOfItsTables) {
  const std::int64_t rows = 30, seq = 10;
  for_storage_types([&]<class T>(T) {
    for (const Tables& c :
         {Tables{64, 0, 50, true, false, false}, Tables{131, 20, 15, true, true, true},
          Tables{1032, 0, 50, false, false, true}}) {
      const auto width = static_cast<std::size_t>(c.cols);
      expect_equal(on_both([&](Device& device) {
        const OnDevice<std::int32_t> ids(device, random_ids(rows, 49, 1));
        const OnDevice<std::int32_t> positions(device, random_ids(rows, 11, 2));
        const OnDevice<std::int32_t> types(device, random_ids(rows, 1, 3));
        const OnDevice<T> table(device, normal_values<T>(50 * width, 4));
        const OnDevice<T> position_table(device, normal_values<T>(12 * width, 5));
        const OnDevice<T> type_table(device, normal_values<T>(2 * width, 6));
        const OnDevice<T> y(device, normal_values<T>(rows * width, 7));
        device.kernels<T>().embedding(
            device.queue(), {.y = y.get(),
                             .ids = ids.get(),
                             .table = table.get(),
                             .position_table = c.positions ? position_table.get() : nullptr,
                             .positions = c.position_numbers ? positions.get() : nullptr,
                             .type_table = c.types ? type_table.get() : nullptr,
                             .types = c.types ? types.get() : nullptr,
                             .rows = rows,
                             .cols = c.cols,
                             .seq = seq,
                             .first_id = c.first_id,
                             .local_ids = c.local_ids});
        return y.values();
      }));
    }
  });
}

struct Gradient {
  std::int64_t rows, cols, largest, first_id, local_ids;
};

TEST_P(Embedding, SumsRowsOfEqualIdInRowOrder) {
  for_storage_types([&]<class T>(T) {
    for (const Gradient& c :
         {Gradient{600, 72, 99, 0, 100}, Gradient{257, 13, 9000, 0, 9001},
          Gradient{300, 520, 1, 0, 2}, Gradient{70, 64, 99, 30, 40}, Gradient{0, 64, 9, 0, 10}}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(c.rows);
        const auto count = static_cast<std::size_t>(c.local_ids * c.cols);
        const auto ids =
            random_ids(static_cast<std::size_t>(c.rows), static_cast<int>(c.largest), 1);
        expect_equal(on_both([&](Device& device) {
          const OnDevice<std::int32_t> numbers(device, ids);
          const OnDevice<T> dy(device,
                               normal_values<T>(ids.size() * static_cast<std::size_t>(c.cols), 2));
          const OnDevice<float> dtable(device, normal_values<float>(count, 3));
          const GuardedScratch workspace(device, grad_workspace(device, c.rows, c.local_ids));
          device.kernels<T>().embedding_grad(device.queue(), dtable.get(), accumulate,
                                             numbers.get(), dy.get(), c.rows, c.cols, c.first_id,
                                             c.local_ids, workspace.as<std::int32_t>());
          EXPECT_TRUE(workspace.was_kept_to());
          return dtable.values();
        }));
      }
    }
  });
}

class Rows : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(Rows);

TEST_P(Rows, AreTakenAndGivenBack) {
  const std::int64_t source = 23;
  for_storage_types([&]<class T>(T) {
    for (const std::int64_t cols : {8, 77, 1040}) {
      for (const std::int64_t taken : {0, 5, 300}) {
        const auto width = static_cast<std::size_t>(cols);
        const auto numbers = random_ids(static_cast<std::size_t>(taken), 22, 1);
        expect_equal(on_both([&](Device& device) {
          const OnDevice<std::int32_t> n(device, numbers);
          const OnDevice<T> x(device, normal_values<T>(source * width, 2));
          const OnDevice<T> y(device, numbers.size() * width);
          device.kernels<T>().gather(device.queue(), y.get(), x.get(), n.get(), taken, cols,
                                     source);
          return y.values();
        }));
        expect_equal(on_both([&](Device& device) {
          const OnDevice<std::int32_t> n(device, numbers);
          const OnDevice<T> dy(device, normal_values<T>(numbers.size() * width, 3));
          const OnDevice<T> dx(device, normal_values<T>(source * width, 4));
          device.kernels<T>().gather_grad(device.queue(), dx.get(), dy.get(), n.get(), taken, cols,
                                          source);
          return dx.values();
        }));
      }
    }
  });
}

class BiasGrad : public OnBothWaves {};
TRIREME_ON_BOTH_WAVES(BiasGrad);

TEST_P(BiasGrad, IsTheSumOverRows) {
  for_storage_types([&]<class T>(T) {
    for (const auto& [rows, cols] : {std::pair{1, 8}, {33, 300}, {2100, 65}, {0, 16}}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(rows);
        const auto width = static_cast<std::size_t>(cols);
        expect_close(on_both([&](Device& device) {
                       const OnDevice<T> dy(
                           device, normal_values<T>(static_cast<std::size_t>(rows) * width, 1));
                       const OnDevice<float> dbias(device, normal_values<float>(width, 2));
                       const GuardedScratch workspace(
                           device, &device == &gpu_ ? gpu::bias_grad_workspace(rows, cols)
                                                    : 4 * cpu::bias_grad_workspace(rows, cols));
                       device.kernels<T>().bias_grad(device.queue(), dbias.get(), accumulate,
                                                     dy.get(), rows, cols, workspace.as<float>());
                       EXPECT_TRUE(workspace.was_kept_to());
                       return dbias.values();
                     }),
                     2e-5);
      }
    }
  });
}

}  // namespace
}  // namespace trireme
