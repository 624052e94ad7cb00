// Rank arithmetic: ranks are mixed-radix numbers whose digits are the coordinates.
#include "comm/mesh.h"

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "config/divisors.h"

namespace trireme {
namespace {

constexpr std::int64_t max_ranks = 1 << 24;

void require_positive(const char* key, int value) {
  if (value < 1) fail_input("parallel.{} is {}; it must be at least 1", key, value);
}

void require_positive(const MeshDegrees& d) {
  require_positive("tp", d.tp);
  require_positive("cp", d.cp);
  require_positive("ep", d.ep);
  require_positive("expert_tp", d.expert_tp);
  require_positive("dp_shard", d.dp_shard);
  require_positive("dp_replicate", d.dp_replicate);
  require_positive("pp", d.pp);
}

// Valid values of one key with the others fixed: "parallel.tp = 2 or 4". Empty if none.
std::string proposal(const char* key, int wanted, int ranks, std::int64_t others) {
  if (ranks % others) return "";
  return fmt::format("parallel.{} = {}", key, divisors_near(ranks / others, wanted));
}

[[noreturn]] void refuse_product(int ranks, const MeshDegrees& d, std::int64_t product) {
  std::vector<std::string> proposals;
  const auto add = [&](const char* key, int value) {
    const std::string text = value > 1 ? proposal(key, value, ranks, product / value) : "";
    if (!text.empty()) proposals.push_back(text);
  };
  add("tp", d.tp);
  add("pp", d.pp);
  add("cp", d.cp);
  add("dp_replicate", d.dp_replicate);
  fail_input(
      "{} cannot be divided into tp {} x cp {} x pp {} x dp_replicate {}: their product {} "
      "must divide the number of ranks. Start {} ranks{}{}",
      counted(ranks, "rank"), d.tp, d.cp, d.pp, d.dp_replicate, product,
      multiples_near(ranks, product),
      proposals.empty() ? ", or choose smaller degrees" : ", or keep the other degrees and set ",
      fmt::join(proposals, ", or "));
}

std::string text_of_experts(const MeshDegrees& d) {
  if (d.expert_tp > 1) return fmt::format(" (ep {} x expert_tp {})", d.ep, d.expert_tp);
  return d.ep > 1 ? fmt::format(" (ep {})", d.ep) : "";
}

}  // namespace

MeshDegrees fit_degrees(int ranks, const MeshDegrees& chosen) {
  if (ranks < 1) fail_input("a run needs at least 1 rank, not {}", ranks);
  MeshDegrees d = chosen;
  d.dp_shard = 1;
  require_positive(d);
  // Four ints may overflow 64 bits; above the rank count the exact product is irrelevant.
  std::int64_t product = 1;
  for (const int degree : {d.tp, d.cp, d.pp, d.dp_replicate}) {
    product *= degree;
    if (product > max_ranks) {
      fail_input("tp {} x cp {} x pp {} x dp_replicate {} is far more than {}", d.tp, d.cp, d.pp,
                 d.dp_replicate, counted(ranks, "rank"));
    }
  }
  if (ranks % product) refuse_product(ranks, d, product);
  d.dp_shard = static_cast<int>(ranks / product);
  if (const int sharing = d.tp * d.cp * d.dp_shard; sharing % d.expert_ranks()) {
    const std::string of_slices =
        d.expert_tp > 1 ? fmt::format(" times expert_tp = {}", d.expert_tp) : "";
    fail_input(
        "parallel.ep is {}{}, but experts are distributed over the {} of a stage that share "
        "one replica of the states ({} / pp {} / dp_replicate {}): set {}",
        d.ep, of_slices, counted(sharing, "rank"), counted(ranks, "rank"), d.pp, d.dp_replicate,
        sharing % d.expert_tp
            ? fmt::format("parallel.expert_tp = {}", divisors_near(sharing, d.expert_tp))
            : fmt::format("parallel.ep = {}", divisors_near(sharing / d.expert_tp, d.ep)));
  }
  return d;
}

Mesh::Mesh(const MeshDegrees& degrees) : degrees_(degrees) {
  require_positive(degrees);
  if (const int sharing = degrees.tp * degrees.cp * degrees.dp_shard;
      sharing % degrees.expert_ranks()) {
    fail_input(
        "ep {} x expert_tp {} does not divide tp x cp x dp_shard = {}: their product can be {}",
        degrees.ep, degrees.expert_tp, sharing, divisors_near(sharing, degrees.expert_ranks()));
  }
  TRIREME_CHECK(degrees.kv_copies >= 1 && degrees.tp % degrees.kv_copies == 0);
  const int sizes[axis_count] = {degrees.tp, degrees.cp, degrees.dp_shard, degrees.dp_replicate,
                                 degrees.pp};
  std::int64_t stride = 1;
  for (int i = 0; i < axis_count; ++i) {
    axes_[i] = {sizes[i], static_cast<int>(stride)};
    stride *= sizes[i];
    if (stride > max_ranks) fail_input("a mesh has at most {} ranks", max_ranks);
  }
  size_ = static_cast<int>(stride);
}

MeshPlace Mesh::place_of(int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < size_);
  const auto digit = [&](int i) { return rank / axes_[i].stride % axes_[i].size; };
  return {digit(0), digit(1), digit(2), digit(3), digit(4)};
}

int Mesh::rank_of(const MeshPlace& p) const {
  const int digits[axis_count] = {p.tp, p.cp, p.shard, p.replicate, p.pp};
  int rank = 0;
  for (int i = 0; i < axis_count; ++i) {
    TRIREME_CHECK(digits[i] >= 0 && digits[i] < axes_[i].size);
    rank += digits[i] * axes_[i].stride;
  }
  return rank;
}

int Mesh::dp_index(int rank) const {
  return index_in_group(rank, Axes::dp);
}

std::vector<int> Mesh::group(int rank, Axes axes) const {
  TRIREME_CHECK(rank >= 0 && rank < size_);
  int first = rank;
  for (int i = 0; i < axis_count; ++i) {
    if (static_cast<unsigned>(axes) >> i & 1) {
      first -= rank / axes_[i].stride % axes_[i].size * axes_[i].stride;
    }
  }
  std::vector<int> ranks{first};
  // From the innermost axis, repeats the list at each axis's stride: the result is ascending.
  for (int i = 0; i < axis_count; ++i) {
    if (!(static_cast<unsigned>(axes) >> i & 1)) continue;
    const std::size_t count = ranks.size();
    for (int step = 1; step < axes_[i].size; ++step) {
      for (std::size_t k = 0; k < count; ++k) ranks.push_back(ranks[k] + step * axes_[i].stride);
    }
  }
  return ranks;
}

std::vector<std::vector<int>> Mesh::groups(Axes axes) const {
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < size_; ++rank) {
    if (index_in_group(rank, axes) == 0) all.push_back(group(rank, axes));
  }
  return all;
}

int Mesh::index_in_group(int rank, Axes axes) const {
  TRIREME_CHECK(rank >= 0 && rank < size_);
  int index = 0;
  int scale = 1;
  for (int i = 0; i < axis_count; ++i) {
    if (!(static_cast<unsigned>(axes) >> i & 1)) continue;
    index += rank / axes_[i].stride % axes_[i].size * scale;
    scale *= axes_[i].size;
  }
  return index;
}

int Mesh::group_size(Axes axes) const {
  int size = 1;
  for (int i = 0; i < axis_count; ++i) {
    if (static_cast<unsigned>(axes) >> i & 1) size *= axes_[i].size;
  }
  return size;
}

std::vector<int> Mesh::embedding_group(int rank) const {
  std::vector<int> stages = group(rank, Axes::pp);
  if (stages.size() == 1) return stages;
  if (rank != stages.front() && rank != stages.back()) return {};
  return {stages.front(), stages.back()};
}

std::vector<int> Mesh::expert_group(int rank) const {
  const std::vector<int> ranks = group(rank, Axes::experts);
  const int size = degrees_.expert_ranks();
  const int first = index_in_group(rank, Axes::experts) / size * size;
  return {ranks.begin() + first, ranks.begin() + first + size};
}

std::vector<int> Mesh::expert_dp_group(int rank) const {
  const auto number = [&](int of) {
    return index_in_group(of, Axes::experts) % degrees_.expert_ranks();
  };
  std::vector<int> same;
  for (const int other : group(rank, Axes::stage)) {
    if (number(other) == number(rank)) same.push_back(other);
  }
  return same;
}

std::vector<int> Mesh::kv_group(int rank) const {
  const std::vector<int> ranks = group(rank, Axes::tp);
  const int first = place_of(rank).tp / degrees_.kv_copies * degrees_.kv_copies;
  return {ranks.begin() + first, ranks.begin() + first + degrees_.kv_copies};
}

std::string Mesh::text() const {
  const MeshDegrees& d = degrees_;
  return fmt::format("tp {} x cp {} x dp {}{}{} x pp {} = {}", d.tp, d.cp, d.dp(),
                     d.dp_replicate > 1
                         ? fmt::format(" (shard {} x replicate {})", d.dp_shard, d.dp_replicate)
                         : "",
                     text_of_experts(d), d.pp, counted(size_, "rank"));
}

}  // namespace trireme
