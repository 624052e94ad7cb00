// Texts between the ranks of a job: how they communicate about checkpoints and traces.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/writer.h"
#include "comm/transport.h"

namespace trireme {

// The transport must outlive what is made from it.
Ranks checkpoint_ranks(Transport& transport);

// Collective; null: a single rank. Gathers the reports on rank 0 in rank order, and sends what rank
// 0 passes to all of them.
std::vector<std::string> reports_of_ranks(Transport* transport, const std::string& report);
std::string from_rank_0(Transport* transport, const std::string& text);

}  // namespace trireme
