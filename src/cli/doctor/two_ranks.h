// Starts two ranks with this build's MPI, to check whether multi-process runs can start.
#pragma once

#include <string>

namespace trireme::cli {

struct TwoRanks {
  double seconds = 0;   // from the start until both have ended
  std::string problem;  // launcher's error message; empty: started
};

// Starts this program twice under mpi_launcher(), and kills both after `limit_s`.
TwoRanks start_two_ranks(double limit_s);

// Runs one of the two ranks. The flag is hidden from doctor's help.
inline constexpr const char* two_ranks_flag = "--one-of-two-ranks";
void be_one_of_two_ranks();

}  // namespace trireme::cli
