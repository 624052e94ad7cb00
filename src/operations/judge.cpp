// Derives faults of hosts from the measurements of their ranks.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "operations/node_check.h"

namespace trireme {
namespace {

struct SpeedWords {
  std::string_view name, unit;
};
constexpr std::array<SpeedWords, speeds> speed_words = {{{"products", "GFLOP/s"},
                                                         {"memory", "GB/s"},
                                                         {"link to its neighbors", "GB/s"},
                                                         {"storage", "GB/s"}}};

double median_of(std::vector<double> values) {
  if (values.empty()) return -1;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<std::string> faults_of(const CheckedRank& checked, const NodeReport& report,
                                   double slow) {
  std::vector<std::string> faults;
  const NodeMeasure& m = checked.measure;
  if (!checked.problem.empty()) faults.push_back(checked.problem);
  if (m.wrong > 0)
    faults.push_back(fmt::format("matrix products are WRONG: {:.0f} of {:.0f} have incorrect bits",
                                 m.wrong, m.products));
  for (std::size_t i = 0; i < speeds; ++i) {
    if (m.speed[i] < 0 || m.speed[i] >= slow * report.median[i]) continue;
    faults.push_back(fmt::format("{} slow: {:.3g} {}, {:.0f}% of the median ({:.3g})",
                                 speed_words[i].name, m.speed[i], speed_words[i].unit,
                                 100 * m.speed[i] / report.median[i], report.median[i]));
  }
  return faults;
}

constexpr std::size_t most_partners = 4;  // listed in a sentence

// "rank 0 (node1), rank 1 (node2) and 3 others"
std::string partners_text(const std::vector<int>& ranks, const Reach& reach) {
  std::string text;
  const std::size_t named = ranks.size() > most_partners ? most_partners - 1 : ranks.size();
  for (std::size_t i = 0; i < named; ++i) {
    const std::string& host = reach.hosts[static_cast<std::size_t>(ranks[i])];
    text += i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ";
    text += fmt::format("rank {}{}", ranks[i], host.empty() ? "" : fmt::format(" ({})", host));
  }
  if (named < ranks.size()) text += fmt::format(" and {} others", ranks.size() - named);
  return text;
}

}  // namespace

std::vector<CheckedHost> cut_off_hosts(const Reach& reach) {
  // A rank with an unknown host is treated as a separate host.
  using Key = std::pair<std::string, int>;
  const auto key_of = [&](int rank) {
    const std::string& host = reach.hosts[static_cast<std::size_t>(rank)];
    return Key{host, host.empty() ? rank : -1};
  };
  std::vector<CheckedHost> bad;
  for (auto dead = reach.dead; !dead.empty();) {
    struct Links {
      int last = 0;                              // rank
      std::map<int, std::vector<int>> partners;  // of each rank
      std::size_t count = 0;
    };
    std::map<Key, Links> links;
    for (const auto& [a, b] : dead) {
      for (const auto& [rank, partner] : {std::pair{a, b}, {b, a}}) {
        Links& of_host = links[key_of(rank)];
        of_host.last = std::max(of_host.last, rank);
        of_host.partners[rank].push_back(partner);
        ++of_host.count;
      }
    }
    const auto worst = std::ranges::max_element(links, {}, [](const auto& entry) {
      return std::pair{entry.second.count, entry.second.last};
    });
    bad.push_back({worst->first.first, {}});
    for (const auto& [rank, partners] : worst->second.partners)
      bad.back().faults.push_back(fmt::format("rank {}: no messages are exchanged with {}", rank,
                                              partners_text(partners, reach)));
    std::erase_if(dead, [&](const auto& pair) {
      return key_of(pair.first) == worst->first || key_of(pair.second) == worst->first;
    });
  }
  return bad;
}

std::string_view name_of(Speed speed) {
  return speed_words[static_cast<std::size_t>(speed)].name;
}
std::string_view unit_of(Speed speed) {
  return speed_words[static_cast<std::size_t>(speed)].unit;
}

NodeReport judge_nodes(std::span<const CheckedRank> ranks, double slow) {
  NodeReport report;
  for (std::size_t i = 0; i < speeds; ++i) {
    std::vector<double> values;
    for (const CheckedRank& one : ranks)
      if (one.measure.speed[i] >= 0) values.push_back(one.measure.speed[i]);
    report.median[i] = median_of(values);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    auto at = std::ranges::find(report.hosts, ranks[r].host, &CheckedHost::host);
    if (at == report.hosts.end()) at = report.hosts.insert(at, {ranks[r].host, {}});
    for (const std::string& fault : faults_of(ranks[r], report, slow))
      at->faults.push_back(fmt::format("rank {}: {}", r, fault));
  }
  return report;
}

}  // namespace trireme
