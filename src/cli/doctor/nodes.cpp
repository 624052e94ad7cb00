// `trireme doctor --nodes`: compares the nodes of a job.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "cli/doctor/doctor.h"
#include "comm/handshake.h"
#include "comm/suspects.h"
#include "operations/node_check.h"

namespace trireme::cli {
namespace {

std::string hosts_text(const NodeReport& report) {
  std::string text;
  for (const CheckedHost& host : report.hosts)
    if (host.faults.empty()) text += host.host + "\n";
  return text;
}

void print_speeds(const NodeReport& report, const std::vector<CheckedRank>& ranks) {
  for (std::size_t i = 0; i < speeds; ++i) {
    if (report.median[i] < 0) continue;
    const CheckedRank* slowest = nullptr;
    for (const CheckedRank& rank : ranks) {
      const double speed = rank.measure.speed[i];
      if (speed >= 0 && (!slowest || speed < slowest->measure.speed[i])) slowest = &rank;
    }
    const auto which = static_cast<Speed>(i);
    fmt::print("{:<24} median {:.3g} {}, slowest {:.3g} (rank {} on {})\n", name_of(which),
               report.median[i], unit_of(which), slowest->measure.speed[i], slowest - ranks.data(),
               slowest->host);
  }
}

void print_json(const NodeReport& report, const std::vector<CheckedRank>& ranks) {
  nlohmann::ordered_json hosts = nlohmann::ordered_json::array();
  for (const CheckedHost& host : report.hosts) {
    nlohmann::ordered_json measured = nlohmann::ordered_json::array();
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (ranks[r].host != host.host) continue;
      nlohmann::ordered_json one = {{"rank", r}, {"wrong_products", ranks[r].measure.wrong}};
      for (std::size_t i = 0; i < speeds; ++i)
        if (ranks[r].measure.speed[i] >= 0)
          one[std::string(name_of(static_cast<Speed>(i)))] = ranks[r].measure.speed[i];
      measured.push_back(std::move(one));
    }
    hosts.push_back({{"host", host.host},
                     {"good", host.faults.empty()},
                     {"faults", host.faults},
                     {"ranks", std::move(measured)}});
  }
  fmt::print("{}\n", hosts.dump());
}

// Describes the faults of the job's nodes in one sentence; "" if there are none.
std::string report_on(const std::vector<CheckedRank>& ranks, const NodesCommand& command) {
  const NodeReport report = judge_nodes(ranks, command.check.slow);
  const auto bad = std::ranges::count_if(
      report.hosts, [](const CheckedHost& host) { return !host.faults.empty(); });
  if (command.json) {
    print_json(report, ranks);
  } else {
    fmt::print("{:<24} {} with {}\n", "checked", counted(report.hosts.size(), "node"),
               counted(ranks.size(), "rank"));
    print_speeds(report, ranks);
    for (const CheckedHost& host : report.hosts)
      for (const std::string& fault : host.faults)
        fmt::print("bad node {}: {}\n", host.host, fault);
    if (ranks.size() == 1)
      fmt::print(
          "note: a single process cannot be compared with others: start one or more on each node "
          "with srun or mpirun\n");
  }
  std::fflush(stdout);
  if (!command.hosts.empty()) write_file_durably(command.hosts, hosts_text(report));
  if (bad == 0) return "";
  return fmt::format(
      "doctor: {} of {} failed{}", bad, counted(report.hosts.size(), "node"),
      command.hosts.empty() ? "" : fmt::format("; '{}' lists the healthy ones", command.hosts));
}

// Writes the names of all hosts except bad ones, in order.
void write_good_hosts(const std::vector<std::string>& hosts, const std::set<std::string>& bad,
                      const fs::path& path) {
  std::string good;
  std::set<std::string> written;
  for (const std::string& host : hosts)
    if (!host.empty() && !bad.contains(host) && written.insert(host).second) good += host + "\n";
  write_file_durably(path, good);
}

// The same words before and after MPI has started.
void print_unreached(const std::string& host, int rank) {
  fmt::print(stderr, "bad node {}: rank {}: the other ranks do not reach it\n", host, rank);
}

// Ends the check before MPI has started.
void report_unreached(const Reach& reach, const NodesCommand& command) {
  const std::string& own = reach.hosts[static_cast<std::size_t>(reach.rank)];
  if (!reach.hears_most()) {
    const auto heard = reach.heard() - 1;
    if (heard == 0)
      print_unreached(own, reach.rank);
    else
      fmt::print(stderr, "bad node {}: rank {}: it received messages from {} of the other {}\n",
                 own, reach.rank, heard, counted(reach.hosts.size() - 1, "rank"));
    return;
  }
  std::set<std::string> bad;
  for (const CheckedHost& host : cut_off_hosts(reach)) {
    bad.insert(host.host);
    for (const std::string& fault : host.faults)
      fmt::print(stderr, "bad node{}: {}\n", host.host.empty() ? "" : " " + host.host, fault);
  }
  if (!command.hosts.empty()) write_good_hosts(reach.hosts, bad, command.hosts);
}

// Ends the check on the first rank whose wait timed out: it knows only which ranks do not
// respond.
void report_silence(const std::vector<int>& silent, int own, const std::vector<std::string>& hosts,
                    const NodesCommand& command) {
  std::set<std::string> bad;
  for (const int rank : suspect_ranks(silent, own, static_cast<int>(hosts.size()))) {
    const std::string& host = hosts[static_cast<std::size_t>(rank)];
    print_unreached(host, rank);
    bad.insert(host);
  }
  if (!bad.empty() && !command.hosts.empty()) write_good_hosts(hosts, bad, command.hosts);
}

}  // namespace

void doctor_nodes(const NodesCommand& command) {
  std::string verdict;
  // A previous check's file must not be mistaken for this one's.
  if (discover_launch().rank == 0 && !command.hosts.empty()) fs::remove(command.hosts);
  const std::unique_ptr<Transport> transport =
      open_transport_after_handshake({.timeout_s = command.timeout_s},
                                     [&](const Reach& reach) { report_unreached(reach, command); });
  run_guarded(*transport, [&] {
    const bool leads = transport->place().rank == 0;
    transport->set_last_output([&command, hosts = transport->hosts(),
                                own = transport->place().rank](const LastMessage& message) {
      report_silence(message.silent, own, hosts, command);
    });
    const std::vector<CheckedRank> ranks = check_nodes(*transport, command.check);
    if (leads) verdict = report_on(ranks, command);
    if (!verdict.empty()) transport->set_exit_code(static_cast<int>(ExitCode::failed));
  });
  // After all have left: the job itself worked, but its nodes are faulty.
  if (!verdict.empty()) fail("{}", verdict);
}

}  // namespace trireme::cli
