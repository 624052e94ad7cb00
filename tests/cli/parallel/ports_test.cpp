// Tests that `--nproc` opens no port to other machines.
#include <set>

#include "faults.h"

namespace trireme::testing_cli {
namespace {

class Ports : public Faults, public testing::WithParamInterface<const char*> {};

// Inodes of the sockets that processes of the job in a run's folder have open.
std::set<std::string> sockets_of(const std::string& job) {
  std::set<std::string> inodes;
  std::error_code ignored;  // processes come and go
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    if (variable_of(contents(process.path() / "environ"), "TRIREME_TEST_JOB") != job) continue;
    for (const auto& file : fs::directory_iterator(process.path() / "fd", ignored)) {
      const std::string to = fs::read_symlink(file, ignored);  // "socket:[123]"
      if (to.starts_with("socket:[")) inodes.insert(to.substr(8, to.size() - 9));
    }
  }
  return inodes;
}

// Addresses, in the kernel's hexadecimal, on which these sockets listen.
std::vector<std::string> listening(const std::set<std::string>& inodes) {
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(contents(table));
    for (std::string line; std::getline(lines, line);) {
      const std::vector<std::string> words = words_of(line);
      if (words.size() > 9 && words[3] == "0A" && inodes.contains(words[9]))
        addresses.push_back(words[1].substr(0, words[1].find(':')));
    }
  }
  return addresses;
}

TEST_P(Ports, AreOnTheLoopbackInterface) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "builds with sanitizers preload nothing";
#endif
  const std::string launcher = std::string("/usr/bin/mpiexec.") + GetParam();
  if (::access(launcher.c_str(), X_OK) != 0) GTEST_SKIP() << launcher << " was not found";
  ::setenv("TRIREME_MPIRUN", launcher.c_str(), 1);
  Program program = start("run", {2, ""}, "train.iters=100000 train.log_interval=1");
  ::unsetenv("TRIREME_MPIRUN");
  ASSERT_TRUE(advance(program, "run", 2, 0)) << read("run.out");
  const std::vector<std::string> addresses = listening(sockets_of(path("run")));
  EXPECT_FALSE(addresses.empty());
  for (const std::string& address : addresses)
    EXPECT_THAT(address, testing::AnyOf("0100007F", "00000000000000000000000001000000"));
  program.kill(SIGTERM);
  EXPECT_EQ(wait_for(program, 60).code, 3) << read("run.out");
}

INSTANTIATE_TEST_SUITE_P(Launchers, Ports, testing::Values("mpich", "openmpi"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace trireme::testing_cli
