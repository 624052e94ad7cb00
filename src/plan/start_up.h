// Predicted load of a run's start on the network and on a shared file system: with thousands
// of ranks, a message to every rank or a file read by all of them can prevent a job from
// starting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/target.h"
#include "comm/transport.h"
#include "config/config.h"

namespace trireme {

struct StartOptions {
  int ranks_on_node = 8;
  bool resumes = false;     // from a checkpoint saved with the same layout
  std::string config_file;  // of the run, for its size
  // Counts the messages of all ranks, or only of those of the first, middle and last node.
  bool all_ranks = false;
};

// Files of one kind; each opening counts.
struct StartFiles {
  std::string what;
  int readers = 0;                  // number of ranks that open any
  std::int64_t rank = 0, node = 0;  // files that a rank and that a node open at most
  std::int64_t job = 0;             // of all ranks
  std::int64_t bytes = -1;          // read by one rank; -1: unknown here
};

struct StartPlan {
  int ranks = 0, nodes = 0;
  int groups = 0;           // that a rank joins at most
  SentMessages rank, node;  // sent at most by one rank, and by the ranks of one node
  int busiest = 0;          // the rank that sends most messages
  std::vector<StartFiles> files;
  StartFiles total;
};

// `config` must be valid for that many ranks, with known vocabulary.
StartPlan plan_start(const Config& config, int ranks, const Target& target,
                     const StartOptions& options);

// Formats the plan as `trireme plan --startup` prints it.
std::string to_text(const StartPlan& start);

}  // namespace trireme
