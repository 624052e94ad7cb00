// Overlays in a mount namespace, and Landlock.
#include "script/sandbox_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace trireme::script {
namespace {

// Folders of the system that hold mount points of their own and are only read.
constexpr const char* kOnlyRead[] = {"/etc", "/proc", "/sys", "/dev", "/run", "/boot", "/usr"};
constexpr std::size_t kMostEntries = 4096;

std::string because(const std::string& what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

// "\040" in /proc/self/mountinfo is a blank.
std::string unescaped(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      result += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::vector<fs::path> mount_points() {
  std::vector<fs::path> result;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 5; ++i) words >> word;
    result.emplace_back(unescaped(word));
  }
  return result;
}

// Builds the tree of overlays under `root`, which lies in memory.
class Layers {
 public:
  explicit Layers(fs::path scratch)
      : scratch_(std::move(scratch)), run_(scratch_ / "run"), mounts_(mount_points()) {}

  std::string build() {
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return because("mounts");
    if (mount("tmpfs", run_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=256m,mode=755") != 0)
      return because("memory for changed files");
    for (const char* name : {"root", "upper", "work", "calls"}) mkdir((run_ / name).c_str(), 0755);
    root_ = run_ / "root";
    // Only what belongs to a user of the namespace can be changed below an overlay, and for others
    // than root that is the user alone: the overlay has to begin at a folder of the user's.
    const char* home = std::getenv("HOME");
    if (geteuid() != 0) mounts_.push_back(fs::current_path());
    if (geteuid() != 0 && home && *home == '/') mounts_.emplace_back(home);
    if (mount(root_.c_str(), root_.c_str(), nullptr, MS_BIND, nullptr) != 0)
      return because("a root folder");
    descend("/");
    if (overlays_ == 0) return problem_.empty() ? "no folder could be layered" : problem_;
    const fs::path inside = root_ / scratch_.relative_path();
    fs::create_directories(inside / "run");
    if (mount(run_.c_str(), (inside / "run").c_str(), nullptr, MS_BIND, nullptr) != 0)
      return because("the scratch folder");
    if (chdir(root_.c_str()) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
        umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) {
      return because("a root of its own");
    }
    return "";
  }

 private:
  bool has_mounts_below(const fs::path& folder) const {
    const std::string prefix = folder == "/" ? "/" : folder.string() + "/";
    return std::any_of(mounts_.begin(), mounts_.end(), [&](const fs::path& point) {
      return point != folder && point.string().starts_with(prefix);
    });
  }

  void descend(const fs::path& folder) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (++entries_ > kMostEntries) return;
      const fs::path path = entry.path();
      const fs::path target = root_ / path.relative_path();
      struct stat status {};
      if (lstat(path.c_str(), &status) != 0) continue;
      if (S_ISLNK(status.st_mode)) {
        fs::copy_symlink(path, target, error);
      } else if (S_ISDIR(status.st_mode)) {
        mkdir(target.c_str(), 0755);
        place(path, target);
      } else if (S_ISREG(status.st_mode)) {
        std::ofstream(target).close();
        bind(path, target);
      }
    }
  }

  void place(const fs::path& path, const fs::path& target) {
    const bool only_read =
        std::find(std::begin(kOnlyRead), std::end(kOnlyRead), path.string()) != std::end(kOnlyRead);
    if (only_read) return bind(path, target);
    if (has_mounts_below(path)) return descend(path);
    if (!overlay(path, target)) bind(path, target);
  }

  bool overlay(const fs::path& path, const fs::path& target) {
    const std::string name = fmt::format("{}", layers_++);
    const fs::path upper = run_ / "upper" / name, work = run_ / "work" / name;
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return false;
    mkdir(upper.c_str(), status.st_mode & 07777);
    chmod(upper.c_str(), status.st_mode & 07777);
    mkdir(work.c_str(), 0755);
    // A name with characters that options of mounts cannot hold is reached by its descriptor.
    const int lower = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (lower < 0) return false;
    const std::string common = fmt::format("lowerdir=/proc/self/fd/{},upperdir={},workdir={}",
                                           lower, upper.string(), work.string());
    bool done = false;
    for (const char* more : {",userxattr", ""}) {
      done = done || mount("overlay", target.c_str(), "overlay", MS_NOSUID | MS_NODEV,
                           (common + more).c_str()) == 0;
    }
    if (!done) problem_ = because("an overlay over " + path.string());
    close(lower);
    overlays_ += done ? 1 : 0;
    return done;
  }

  // As it is, only for reading; devices stay usable.
  void bind(const fs::path& path, const fs::path& target) {
    if (mount(path.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return;
    if (path == "/dev" || path == "/proc") return;
    mount_attr read_only{};
    read_only.attr_set = MOUNT_ATTR_RDONLY;
    syscall(SYS_mount_setattr, AT_FDCWD, target.c_str(), AT_RECURSIVE, &read_only,
            sizeof read_only);
  }

  fs::path scratch_, run_, root_;
  std::vector<fs::path> mounts_;
  std::size_t entries_ = 0;
  int layers_ = 0, overlays_ = 0;
  std::string problem_;
};

// Landlock's attributes as the newest kernels know them; older ones are told a shorter size.
struct Rules {
  std::uint64_t files, network, scopes;
};

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

std::string layer_files(const fs::path& scratch) {
  return Layers(scratch).build();
}

std::string lock_files(const fs::path& scratch) {
  const long version =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return because("Landlock");
  constexpr std::uint64_t read =
      LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  // Version 1 knows 13 rights, 2 adds moving between folders, 3 truncating.
  const std::uint64_t all = (std::uint64_t{1} << (12 + std::min(version, 3L))) - 1;
  const Rules wanted{all, version >= 4 ? 3U : 0U, version >= 6 ? 3U : 0U};
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const int rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &wanted, size, 0));
  if (rules < 0) return because("Landlock");
  const std::uint64_t devices = read | LANDLOCK_ACCESS_FS_WRITE_FILE | (all & (1U << 14));
  const bool done = allow(rules, "/", read) && allow(rules, "/dev", devices) &&
                    allow(rules, scratch.c_str(), all) &&
                    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                    syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  const std::string problem = done ? "" : because("Landlock");
  close(rules);
  return problem;
}

}  // namespace trireme::script
