// Compares hashes among ranks and names the ranks that differ from the most frequent value.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "comm/rank_list.h"
#include "comm/transport.h"

namespace trireme {
namespace {

// Returns the ranks whose value is not the most frequent one; ties go to the
// value of the lowest rank.
std::vector<int> odd_ranks(const std::vector<std::uint64_t>& values) {
  if (std::ranges::count(values, values[0]) == static_cast<std::ptrdiff_t>(values.size()))
    return {};
  std::map<std::uint64_t, int> counts;
  for (const std::uint64_t value : values) ++counts[value];
  std::uint64_t common = values[0];
  for (const std::uint64_t value : values) {
    if (counts[value] > counts[common]) common = value;
  }
  std::vector<int> odd;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (values[rank] != common) odd.push_back(static_cast<int>(rank));
  }
  return odd;
}

std::vector<std::uint64_t> gather(Communicator& world, std::uint64_t value) {
  std::vector<std::uint64_t> all(world.size());
  world.all_gather(&value, all.data(), 1, DType::i64, "comparing ranks at start").wait();
  return all;
}

}  // namespace

void check_agreement(Communicator& world, const std::vector<Agreement>& properties) {
  // Checked first, since ranks of another version may compare other properties.
  Hasher names;
  for (const Agreement& property : properties) {
    names.update(property.what.data(), property.what.size() + 1);
  }
  std::string differences;
  const auto compare = [&](std::string_view what, std::uint64_t hash) {
    const std::vector<int> odd = odd_ranks(gather(world, hash));
    if (odd.empty()) return true;
    differences += fmt::format("{}{} of {} {}", differences.empty() ? "" : "; ", what,
                               odd.size() == 1 ? "rank" : "ranks", rank_list(odd));
    return false;
  };
  if (compare("the list of compared properties", names.digest())) {
    for (const Agreement& property : properties) compare(property.what, property.hash);
  }
  if (differences.empty()) return;
  fail_input(
      "ranks are inconsistent: {} differs from the other ranks. All ranks must run the same "
      "version of trireme with the same files and settings",
      differences);
}

}  // namespace trireme
