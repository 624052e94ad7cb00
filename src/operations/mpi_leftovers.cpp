// Finds leftovers by file name, and their users through /proc.
#include "operations/mpi_leftovers.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  return found;
}

bool is_own(const fs::path& path, struct stat& info) {
  return ::lstat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

// Returns all files of /dev/shm that an accessible process has open or mapped. Open files are read
// first, because a process maps a file before closing it.
std::set<std::string> used_files() {
  std::set<std::string> used;
  for (const fs::path& process : entries("/proc")) {
    if (process.filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code error;
    for (const fs::path& file : entries(process / "fd"))
      used.insert(fs::read_symlink(file, error).string());
    std::ifstream maps(process / "maps");
    for (std::string line; std::getline(maps, line);) {
      const std::size_t at = line.find("/dev/shm/");
      if (at != std::string::npos) used.insert(line.substr(at));
    }
  }
  return used;
}

// Whether a name is "pid.1234", Open MPI's session folder, of a process that no longer exists.
bool names_a_dead_process(const std::string& name) {
  if (!name.starts_with("pid.")) return false;
  char* end = nullptr;
  const long pid = std::strtol(name.c_str() + 4, &end, 10);
  return *end == '\0' && pid > 0 && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

}  // namespace

MpiLeftovers find_mpi_leftovers(std::time_t since) {
  MpiLeftovers left;
  struct stat info {};
  // Lists files first: files created by other jobs from now on are not included.
  const std::vector<fs::path> segments = entries("/dev/shm");
  const std::set<std::string> used = used_files();
  for (const fs::path& path : segments) {
    const std::string name = path.filename();
    const bool known = name.starts_with("vader_segment.") || name.starts_with("sm_segment.") ||
                       name.starts_with("mpich_shm_");
    if (!known || !is_own(path, info) || used.contains(path.string())) continue;
    if (info.st_mtime < since) continue;
    left.paths.push_back(path);
    left.bytes += info.st_size;
  }
  const char* folder = std::getenv("TMPDIR");
  const std::string sessions = "." + std::to_string(::geteuid());
  for (const fs::path& path : entries(folder && *folder ? folder : "/tmp")) {
    const std::string name = path.filename();
    if (!name.starts_with("ompi.") || !name.ends_with(sessions) || !is_own(path, info)) continue;
    for (const fs::path& session : entries(path)) {
      if (!names_a_dead_process(session.filename())) continue;
      if (is_own(session, info) && info.st_mtime >= since) left.paths.push_back(session);
    }
  }
  return left;
}

int remove_leftovers(const MpiLeftovers& leftovers) {
  int removed = 0;
  for (const std::string& path : leftovers.paths) {
    std::error_code error;
    fs::remove_all(path, error);
    removed += !error;
  }
  return removed;
}

}  // namespace trireme
