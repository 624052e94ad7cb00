// Which hosts are to blame where ranks of a job do not answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Before the names of hosts, with commas between them, in the message of a run that ended because
// something is wrong with one of them.
inline constexpr std::string_view suspect_nodes = "suspect nodes: ";

// The ranks that do not answer, as the rank `own` sees it; where most of the job does not, it is
// this one that the others cannot reach.
std::vector<int> suspect_ranks(const std::vector<int>& silent, int own, int ranks);

// Their hosts, each once, in the order of ranks; none where the whole job runs on one. `hosts`: of
// each rank.
std::vector<std::string> suspect_hosts(const std::vector<int>& silent, int own,
                                       const std::vector<std::string>& hosts);

// "; suspect nodes: n7, n9", or "" if there are none.
std::string suspects_text(const std::vector<std::string>& hosts);

}  // namespace trireme
