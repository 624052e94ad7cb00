// Exchange of texts between the ranks of a job, for checkpoints and traces.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/writer.h"
#include "comm/transport.h"

namespace trireme {

// The transport must outlive the result.
Ranks checkpoint_ranks(Transport& transport);

// Gathers the reports on rank 0 in rank order, and broadcasts rank 0's argument to all ranks.
// Collective; null: a single rank.
std::vector<std::string> reports_of_ranks(Transport* transport, const std::string& report);
std::string from_rank_0(Transport* transport, const std::string& text);

// Returns on every rank the first report, in rank order, that is not empty, or "". Collective.
std::string first_failure(Transport* transport, const std::string& report);

}  // namespace trireme
