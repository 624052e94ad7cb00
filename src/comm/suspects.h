// Identifies the hosts to blame if ranks of a job do not answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Precedes a comma-separated list of hosts in the final message of a run that ended because
// something is wrong with one of them.
inline constexpr std::string_view suspect_nodes = "suspect nodes: ";

// Ranks that do not answer, as seen by rank `own`; if that is most of the job, the result is `own`,
// which the others cannot reach.
std::vector<int> suspect_ranks(const std::vector<int>& silent, int own, int ranks);

// Their hosts without duplicates, in rank order; empty if the whole job runs on
// one host. `hosts`: by rank.
std::vector<std::string> suspect_hosts(const std::vector<int>& silent, int own,
                                       const std::vector<std::string>& hosts);

// "; suspect nodes: n7, n9", or "" if there are none.
std::string suspects_text(const std::vector<std::string>& hosts);

}  // namespace trireme
