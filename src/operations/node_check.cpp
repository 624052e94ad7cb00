// Measurements in phases that all ranks start together, so that disturbances affect all equally.
#include "operations/node_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backend/cpu/gemm.h"
#include "base/as_error.h"
#include "base/hash.h"
#include "base/thread_pool.h"
#include "operations/known_product.h"
#include "train/run/ranks.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t memory_bytes = std::size_t{64} << 20;  // larger than most caches
constexpr std::int64_t link_bytes = std::int64_t{8} << 20;
constexpr std::size_t storage_bytes = std::size_t{32} << 20;
constexpr int rounds = 3;  // the best one counts, since a rank may be disturbed once
// Repeats the measurement if a node looks bad, so that temporary disturbances are not attributed to
// it: the best of each speed counts.
constexpr int attempts = 3;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void measure_products(double seconds, NodeMeasure& measure) {
  const KnownProduct known;
  const cpu::Linear<float> linear(Product::forward, KnownProduct::shape);
  std::vector<std::byte> workspace(static_cast<std::size_t>(linear.workspace_bytes()));
  std::vector<float> y(
      static_cast<std::size_t>(KnownProduct::shape.rows * KnownProduct::shape.out));
  for (int round = 0; round < rounds; ++round) {
    double computing = 0;
    double done = 0;
    do {
      const auto begin = Clock::now();
      linear.run(y.data(), known.x.data(), known.weight.data(), nullptr, false, workspace.data());
      computing += seconds_since(begin);
      ++done;
      measure.wrong += hash64(y.data(), y.size() * sizeof(float)) != KnownProduct::hash;
    } while (computing < seconds / rounds);
    measure.products += done;
    double& best = measure.speed[static_cast<std::size_t>(Speed::products)];
    best = std::max(best, 1e-9 * done * KnownProduct::flops() / computing);
  }
}

// Bytes read and written.
double measure_memory() {
  std::vector<std::byte> src(memory_bytes), dst(memory_bytes);
  double best = 0;
  for (int round = 0; round <= rounds; ++round) {
    const auto begin = Clock::now();
    parallel_ranges(memory_bytes, std::int64_t{1} << 20, [&](std::int64_t from, std::int64_t to) {
      std::memcpy(dst.data() + from, src.data() + from, static_cast<std::size_t>(to - from));
    });
    best = std::max(best, 1e-9 * 2 * static_cast<double>(memory_bytes) / seconds_since(begin));
  }
  return best;
}

// Exchanges in both directions with one neighbor at a time, while other pairs do the same.
double exchange_with(Communicator& world, int peer, std::vector<std::byte>& mine,
                     std::vector<std::byte>& theirs) {
  double best = -1;
  for (int round = 0; round <= rounds; ++round) {
    world.barrier("link check").wait();
    if (peer < 0 || peer >= world.size()) continue;
    const auto begin = Clock::now();
    const Transfer transfers[] = {
        {Transfer::Direction::send, peer, mine.data(), link_bytes, DType::u8},
        {Transfer::Direction::receive, peer, theirs.data(), link_bytes, DType::u8}};
    world.exchange(transfers, "link check").wait();
    best = std::max(best, 1e-9 * 2 * static_cast<double>(link_bytes) / seconds_since(begin));
  }
  return best;
}

// Returns the better of two neighbors, on other nodes if there are several: a good rank next to a
// bad one has another neighbor. The last and the first rank are neighbors too.
double measure_link(Transport& transport) {
  Communicator& world = transport.world();
  if (world.size() == 1) return -1;
  std::int64_t stride = transport.place().local_size;
  world.all_reduce(&stride, 1, DType::i64, Reduction::max, "link check").wait();
  if (stride >= world.size()) stride = 1;
  const int own = world.rank(), step = static_cast<int>(stride), position = own / step;
  const int last = (world.size() - 1 - own % step) / step;  // position in this rank's row
  std::vector<std::byte> mine(static_cast<std::size_t>(link_bytes)), theirs(mine.size());
  double best = -1;
  for (const int phase : {0, 1}) {
    const int peer = own + (position % 2 == phase ? step : -step);
    best = std::max(best, exchange_with(world, peer, mine, theirs));
  }
  const int across = last < 2           ? -1
                     : position == 0    ? own + last * step
                     : position == last ? own - last * step
                                        : -1;
  return std::max(best, exchange_with(world, across, mine, theirs));
}

double measure_storage(const fs::path& folder) {
  const std::vector<std::byte> bytes(storage_bytes, std::byte{1});
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const fs::path path = folder / fmt::format(".trireme-check-{}-{}", host, ::getpid());
  struct Remove {
    const fs::path& path;
    ~Remove() {
      std::error_code error;
      fs::remove(path, error);
    }
  } remove{path};
  const auto begin = Clock::now();
  File file(path, File::Mode::create);
  file.write(bytes.data(), bytes.size());
  file.sync();
  return 1e-9 * static_cast<double>(storage_bytes) / seconds_since(begin);
}

// Adds another measurement to `own`, keeping the better value of each speed.
void measure(Transport& transport, const NodeCheckOptions& options, CheckedRank& own) {
  Communicator& world = transport.world();
  const auto better = [&](Speed which, double measured) {
    double& speed = own.measure.speed[static_cast<std::size_t>(which)];
    speed = std::max(speed, measured);
  };
  world.barrier("node check").wait();
  measure_products(options.seconds, own.measure);
  world.barrier("node check").wait();
  better(Speed::memory, measure_memory());
  better(Speed::link, measure_link(transport));
  if (transport.place().local_rank != 0 || !own.problem.empty()) return;
  try {
    better(Speed::storage, measure_storage(options.storage));
  } catch (const std::exception& error) {
    own.problem = fmt::format("storage: {}", as_error(error).what());
  }
}

// Gathers the measurements of all ranks on rank 0.
std::vector<CheckedRank> gathered(Transport& transport, const CheckedRank& own) {
  const std::vector<std::string> texts =
      reports_of_ranks(&transport, own.host + "\n" + own.problem);
  const std::string_view bytes(reinterpret_cast<const char*>(&own.measure), sizeof own.measure);
  const std::vector<std::string> measures = reports_of_ranks(&transport, std::string(bytes));
  std::vector<CheckedRank> ranks;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    const std::size_t end = texts[r].find('\n');
    ranks.push_back({texts[r].substr(0, end), {}, texts[r].substr(end + 1)});
    std::memcpy(&ranks.back().measure, measures[r].data(), sizeof(NodeMeasure));
  }
  return ranks;
}

bool all_good(const NodeReport& report) {
  return std::ranges::all_of(report.hosts,
                             [&](const CheckedHost& host) { return report.good(host); });
}

}  // namespace

std::vector<CheckedRank> check_nodes(Transport& transport, const NodeCheckOptions& options) {
  CheckedRank own{transport.place().host, {}, ""};
  for (int attempt = 1;; ++attempt) {
    measure(transport, options, own);
    std::vector<CheckedRank> ranks = gathered(transport, own);
    // Only rank 0 has measurements to judge.
    std::int64_t again = attempt < attempts && !all_good(judge_nodes(ranks, options.slow));
    transport.world().all_reduce(&again, 1, DType::i64, Reduction::max, "node check").wait();
    if (again == 0) return ranks;
  }
}

}  // namespace trireme
