// Starts two ranks with the MPI of this build, to see whether a run of several processes can start.
#pragma once

#include <string>

namespace trireme::cli {

struct TwoRanks {
  double seconds = 0;   // from the start to the end of both
  std::string problem;  // why they did not start, in the launcher's words; empty: they did
};

// Starts this program twice under mpi_launcher(), and ends both after `limit_s`.
TwoRanks start_two_ranks(double limit_s);

// Runs one of the two ranks. The flag of doctor for that is not in its help.
inline constexpr const char* two_ranks_flag = "--one-of-two-ranks";
void be_one_of_two_ranks();

}  // namespace trireme::cli
