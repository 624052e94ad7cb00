// Sets up the Landlock rules that the kernel supports.
#include "importers/script/landlock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace trireme::script {
namespace {

// Landlock's attributes in recent kernels; older ones are passed a smaller size.
struct Rules {
  std::uint64_t files, network, scopes;
};

constexpr std::uint64_t kRead =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kTruncate = 1U << 14;

std::string landlock_problem() {
  return fmt::format("Landlock: {}", std::strerror(errno));
}

bool allow(int rules, const char* path, std::uint64_t rights) {
  landlock_path_beneath_attr beneath{};
  beneath.allowed_access = rights;
  beneath.parent_fd = open(path, O_PATH | O_CLOEXEC);
  if (beneath.parent_fd < 0) return false;
  const bool done =
      syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) == 0;
  close(beneath.parent_fd);
  return done;
}

}  // namespace

int landlock_version() {
  const long version =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return static_cast<int>(std::max(version, 0L));
}

std::string lock_files(const std::vector<fs::path>& writable) {
  const int version = landlock_version();
  if (version < 1) return landlock_problem();
  // Version 1 has 13 access rights, 2 adds moving between folders, 3 truncation.
  const std::uint64_t all = (std::uint64_t{1} << (12 + std::min(version, 3))) - 1;
  const Rules wanted{all, version >= 4 ? 3U : 0U, version >= 6 ? 3U : 0U};
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const int rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &wanted, size, 0));
  if (rules < 0) return landlock_problem();
  bool done = allow(rules, "/", kRead);
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    allow(rules, device,
          LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | (all & kTruncate));
  for (const fs::path& path : writable) done = done && allow(rules, path.c_str(), all);
  done = done && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  const std::string problem = done ? "" : landlock_problem();
  close(rules);
  return problem;
}

}  // namespace trireme::script
