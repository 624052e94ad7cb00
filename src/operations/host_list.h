// A file of hosts, one in a line, as mpirun --hostfile and srun --nodelist read it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace trireme {

// Letters, digits, dots, dashes and underscores.
bool is_host_name(std::string_view text);

// The hosts that such a text names: "n7", or as SLURM writes several, "n[1-3,7],m2". Empty where it
// is anything else.
std::vector<std::string> hosts_in(std::string_view text);

// Whether both name the same machine: one may be its address, or have its domain too.
bool is_same_host(const std::string& a, const std::string& b);

class HostList {
 public:
  // Reads the file: the name of a host begins a line, and what follows it, such as Open MPI's
  // "slots=8", is kept. Blank lines and those that begin with '#' are left out. Of these hosts the
  // first `used` run the job, the others are spare; 0: all of them. Refused (exit code 2) are
  // fewer than that, a host twice and what is not the name of one.
  HostList(const fs::path& file, int used);

  int used() const { return used_; }
  int spare() const { return static_cast<int>(lines_.size()) - used_; }
  bool uses(const std::string& host) const;
  // These hosts are used only where no others are left: they go to the end. Returns those of them
  // that were used.
  std::vector<std::string> replace(const std::vector<std::string>& hosts);
  // The hosts that run the job and are not among these.
  std::vector<std::string> used_but_not(const std::vector<std::string>& hosts) const;
  // The lines of the hosts that run the job.
  std::string text() const;

 private:
  std::vector<std::string>::const_iterator find(const std::string& host) const;

  std::vector<std::string> lines_;
  int used_;
};

}  // namespace trireme
