// Which host a launcher says has failed: from the lines that mpirun or srun print.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Is fed the standard error of a launcher, in pieces of any size. Only a process that was killed by
// a signal and a node that was lost count against a host, and what the guard against silent
// corruption says: a rank that ends with another message and an exit code has found something
// itself, and what that is may be wrong on every node.
class Blame {
 public:
  void read(std::string_view piece);
  // The host that was named first, which the others followed; or all that the guard suspects.
  const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  void read_line(std::string_view line);

  std::string rest_;     // the beginning of a line
  std::string running_;  // MPICH names the host some lines before it says what happened there
  std::vector<std::string> hosts_;
};

}  // namespace trireme
