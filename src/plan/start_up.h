// Load of a run's start on the network and on a shared file system, counted before it begins: at
// thousands of ranks a message to everyone or a file that all of them read decides whether a job
// starts at all.
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
  bool resumes = false;     // from a checkpoint that the same layout has saved
  std::string config_file;  // of the run, for its size
  // Ranks whose messages are counted: those of the first, the middle and the last node, or all.
  bool all_ranks = false;
};

// Files of one kind, each opening counted.
struct StartFiles {
  std::string what;
  int readers = 0;                  // ranks that open any
  std::int64_t rank = 0, node = 0;  // files that a rank and that a node open at most
  std::int64_t job = 0;             // of all ranks
  std::int64_t bytes = -1;          // that one rank reads; -1: unknown here
};

struct StartPlan {
  int ranks = 0, nodes = 0;
  int groups = 0;           // that a rank joins at most
  SentMessages rank, node;  // sent at most by one rank, and by the ranks of one node
  int busiest = 0;          // the rank that sends most messages
  std::vector<StartFiles> files;
  StartFiles total;
};

// `config` is valid for that many ranks and knows its vocabulary.
StartPlan plan_start(const Config& config, int ranks, const Target& target,
                     const StartOptions& options);

// Formats the plan as `trireme plan --startup` prints it.
std::string to_text(const StartPlan& start);

}  // namespace trireme
