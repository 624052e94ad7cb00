// A file of hosts, one per line, as read by mpirun --hostfile and srun --nodelist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace trireme {

// Only letters, digits, dots, dashes and underscores.
bool is_host_name(std::string_view text);

// Returns the hosts that a text names: "n7", or a SLURM list, "n[1-3,7],m2". Empty for any other
// text.
std::vector<std::string> hosts_in(std::string_view text);

// Whether both name the same machine: as an address, or with or without a domain.
bool is_same_host(const std::string& a, const std::string& b);

class HostList {
 public:
  // Reads the file: each line begins with a host name; the rest of it, such as Open MPI's
  // "slots=8", is kept. Blank lines and lines starting with '#' are ignored. The first `used` hosts
  // run the job, the others are spares; 0: all are used. Rejects (exit code 2) fewer hosts than
  // that, duplicates and invalid names.
  HostList(const fs::path& file, int used);

  int used() const { return used_; }
  int spare() const { return static_cast<int>(lines_.size()) - used_; }
  bool uses(const std::string& host) const;
  // Moves these hosts to the end, so that they are used only if no others are left. Returns those
  // of them that were in use.
  std::vector<std::string> replace(const std::vector<std::string>& hosts);
  // Returns the hosts in use that are not among these.
  std::vector<std::string> used_but_not(const std::vector<std::string>& hosts) const;
  // Returns the lines of the hosts in use.
  std::string text() const;

 private:
  std::vector<std::string>::const_iterator find(const std::string& host) const;

  std::vector<std::string> lines_;
  int used_;
};

}  // namespace trireme
