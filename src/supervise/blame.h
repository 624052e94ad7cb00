// Which host a launcher says has failed: from the lines that mpirun or srun print.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Is fed the standard error of a launcher, in pieces of any size. Only a process that was killed by
// a signal and a node that was lost count against a host: a rank that ends with a message and an
// exit code has found something itself, and what that is may be wrong on every node.
class Blame {
 public:
  void read(std::string_view piece);
  // The host that was named first, which the others followed; "": none.
  const std::string& host() const { return host_; }

 private:
  void read_line(std::string_view line);

  std::string rest_;     // the beginning of a line
  std::string running_;  // MPICH names the host some lines before it says what happened there
  std::string host_;
};

}  // namespace trireme
