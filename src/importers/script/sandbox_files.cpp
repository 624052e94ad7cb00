// Sets up overlays in a mount namespace.
#include "importers/script/sandbox_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace trireme::script {
namespace {

// System folders that contain other mount points and are only read.
constexpr const char* kOnlyRead[] = {"/etc", "/proc", "/sys", "/boot", "/usr"};
// Sockets, locks and shared memory of running programs: hidden.
constexpr const char* kHidden[] = {"/dev", "/run", "/var/run"};
constexpr const char* kDevices[] = {"null", "zero", "full", "random", "urandom"};
constexpr std::size_t kMostEntries = 4096;

std::string because(const std::string& what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

// /proc/self/mountinfo escapes a blank as "\040".
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

template <typename List>
bool is_one_of(const fs::path& path, const List& list) {
  return std::find(std::begin(list), std::end(list), path.string()) != std::end(list);
}

bool is_below(const fs::path& path, const std::string& folder) {
  return path.string().starts_with(folder + "/");
}

bool set_attributes(const fs::path& path, std::uint64_t attributes) {
  mount_attr wanted{};
  wanted.attr_set = attributes;
  return syscall(SYS_mount_setattr, AT_FDCWD, path.c_str(), AT_RECURSIVE, &wanted, sizeof wanted) ==
         0;
}

// Builds the tree of overlays under `root`, which is in memory.
class Layers {
 public:
  explicit Layers(fs::path scratch)
      : scratch_(std::move(scratch)), run_(scratch_ / "run"), mounts_(mount_points()) {}

  std::string build(const std::vector<fs::path>& shown) {
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return because("mounts");
    if (mount("tmpfs", run_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=256m,mode=755") != 0)
      return because("memory for changed files");
    for (const char* name : {"root", "upper", "work", "calls", "memory"})
      mkdir((run_ / name).c_str(), 0755);
    root_ = run_ / "root";
    // Below an overlay only files of the namespace's users can be changed, for non-root users only
    // their own: overlays must start at folders that the user owns.
    const char* home = std::getenv("HOME");
    if (geteuid() != 0) mounts_.push_back(fs::current_path());
    if (geteuid() != 0 && home && *home == '/') mounts_.emplace_back(home);
    if (mount(root_.c_str(), root_.c_str(), nullptr, MS_BIND, nullptr) != 0)
      return because("a root folder");
    descend("/");
    if (overlays_ == 0) return problem_.empty() ? "no folder could be layered" : problem_;
    hide();
    for (const fs::path& path : shown) show(path);
    if (!exposed_.empty()) return fmt::format("{} cannot be made read-only", exposed_);
    const fs::path inside = root_ / scratch_.relative_path();
    std::error_code error;
    fs::create_directories(inside / "run", error);
    if (mount(run_.c_str(), (inside / "run").c_str(), nullptr, MS_BIND, nullptr) != 0)
      return because("the scratch folder");
    writable_.push_back(scratch_ / "run");
    if (chdir(root_.c_str()) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
        umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) {
      return because("a root of its own");
    }
    return "";
  }

  const std::vector<fs::path>& writable() const { return writable_; }
  bool gaps() const { return gaps_; }

 private:
  bool has_mounts_below(const fs::path& folder) const {
    const std::string prefix = folder == "/" ? "" : folder.string();
    return std::any_of(mounts_.begin(), mounts_.end(), [&](const fs::path& point) {
      return point != folder && is_below(point, prefix);
    });
  }

  void descend(const fs::path& folder) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (++entries_ > kMostEntries) return;
      const fs::path path = entry.path();
      const fs::path target = root_ / path.relative_path();
      struct stat status {};
      if (lstat(path.c_str(), &status) != 0 || is_one_of(path, kHidden)) continue;
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
    if (is_one_of(path, kOnlyRead)) return bind(path, target);
    if (has_mounts_below(path)) return descend(path);
    if (overlay(path, target) || access(path.c_str(), R_OK | X_OK) != 0) return;
    gaps_ = true;
    bind(path, target);
  }

  bool overlay(const fs::path& path, const fs::path& target) {
    const std::string name = fmt::format("{}", layers_++);
    const fs::path upper = run_ / "upper" / name, work = run_ / "work" / name;
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return false;
    mkdir(upper.c_str(), status.st_mode & 07777);
    chmod(upper.c_str(), status.st_mode & 07777);
    mkdir(work.c_str(), 0755);
    // A path with characters that mount options cannot express is given by its descriptor.
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
    if (done) writable_.push_back(path);
    return done;
  }

  // Binds the path read-only; leaves it out if that is not possible.
  void bind(const fs::path& path, const fs::path& target) {
    if (mount(path.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return;
    if (set_attributes(target, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)) return;
    if (umount2(target.c_str(), MNT_DETACH) != 0) exposed_ = path.string();
  }

  // Hides a folder of the machine behind an empty one in memory.
  void cover(const fs::path& path) {
    const fs::path memory = run_ / "memory" / fmt::format("{}", layers_++);
    const fs::path target = root_ / path.relative_path();
    std::error_code error;
    if (fs::is_symlink(root_ / path.relative_path(), error)) return;
    fs::create_directories(target, error);
    mkdir(memory.c_str(), 0755);
    if (mount(memory.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0)
      exposed_ = path.string();
    writable_.push_back(path);
  }

  void hide() {
    for (const char* path : kHidden) {
      if (fs::exists(path)) cover(path);
    }
    const fs::path dev = root_ / "dev";
    for (const char* name : kDevices) {
      std::ofstream(dev / name).close();
      mount((fs::path("/dev") / name).c_str(), (dev / name).c_str(), nullptr, MS_BIND, nullptr);
    }
    std::error_code error;
    fs::create_symlink("/proc/self/fd", dev / "fd", error);
    for (int i = 0; i < 3; ++i) {
      constexpr const char* names[] = {"stdin", "stdout", "stderr"};
      fs::create_symlink(fmt::format("/proc/self/fd/{}", i), dev / names[i], error);
    }
    mkdir((dev / "shm").c_str(), 01777);
    chmod((dev / "shm").c_str(), 01777);
  }

  // Makes a folder below a hidden one visible, where the user works.
  void show(const fs::path& path) {
    const bool hidden = std::any_of(std::begin(kHidden), std::end(kHidden),
                                    [&](const char* folder) { return is_below(path, folder); });
    const fs::path target = root_ / path.relative_path();
    std::error_code error;
    if (!hidden || fs::exists(target, error)) return;
    fs::create_directories(target, error);
    if (!overlay(path, target)) bind(path, target);
  }

  fs::path scratch_, run_, root_;
  std::vector<fs::path> mounts_, writable_;
  std::size_t entries_ = 0;
  int layers_ = 0, overlays_ = 0;
  bool gaps_ = false;
  std::string problem_, exposed_;
};

}  // namespace

Layered layer_files(const fs::path& scratch, const std::vector<fs::path>& shown) {
  Layers layers(scratch);
  std::string problem = layers.build(shown);
  return {std::move(problem), layers.writable(), layers.gaps()};
}

std::string mount_proc(std::size_t most_processes) {
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return because("a /proc of its own");
  if (most_processes > 0) std::ofstream("/proc/sys/kernel/pid_max") << most_processes;
  if (!set_attributes("/proc", MOUNT_ATTR_RDONLY)) return because("a /proc that is only read");
  return "";
}

}  // namespace trireme::script
