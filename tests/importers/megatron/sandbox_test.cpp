// Ways out of the sandbox of launch scripts. Each is proved to be one without isolation, on marks
// of this test's own, and has to end at the walls with it: as root and as another user, with
// namespaces and without.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "importers/script/launch.h"
#include "importers/script/run.h"

namespace trireme::megatron {
namespace {

using script::Isolation;
using script::ScriptOptions;
using script::ScriptRun;

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t kNobody = 65534;

// What lies outside of the sandbox and must not change.
class Outside {
 public:
  explicit Outside(const fs::path& folder, uid_t user) : folder_(folder), user_(user) {
    fs::create_directories(folder_ / "files");
    shared_ = fmt::format("/dev/shm/trireme-ways-out-{}", getpid());
    fs::create_directories(shared_);
    for (const char* name : kFiles) std::ofstream(file(name)) << "as it was";
    std::ofstream(shared_ / "kept") << "as it was";
    mkfifo(file("pipe").c_str(), 0666);
    pipe_ = open(file("pipe").c_str(), O_RDWR | O_NONBLOCK);
    unix_ = listening(AF_UNIX, folder_ / "socket");
    abstract_ = listening(AF_UNIX, "");
    tcp_ = listening(AF_INET, "");
    udp_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    bind_local(udp_);
    for (const fs::path& path :
         {folder_, folder_ / "files", shared_, shared_ / "kept", folder_ / "socket"})
      give(path);
    for (const auto& entry : fs::directory_iterator(folder_ / "files")) give(entry.path());
    victim_ = fork();
    if (victim_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool other = user_ != geteuid();
      if (other && (setresgid(user_, user_, user_) != 0 || setresuid(user_, user_, user_) != 0))
        _exit(1);
      prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
      if (chdir(folder_.c_str()) != 0) _exit(1);
      while (true) pause();
    }
  }
  ~Outside() {
    for (const int fd : {pipe_, unix_, abstract_, tcp_, udp_}) close(fd);
    kill(victim_, SIGKILL);
    waitpid(victim_, nullptr, 0);
    const int segment = shmget(key(), 0, 0);
    if (segment >= 0) shmctl(segment, IPC_RMID, nullptr);
    std::error_code error;
    fs::remove_all(shared_, error);
    fs::remove_all(folder_, error);
  }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

  fs::path file(const std::string& name) const { return folder_ / "files" / name; }
  bool is_as_it_was(const fs::path& path) const {
    struct stat status {};
    return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
           (status.st_mode & 0777) == 0666 && status.st_mtime > 1'500'000'000 &&
           read_file(path) == "as it was";
  }
  const fs::path& folder() const { return folder_; }
  const fs::path& shared() const { return shared_; }
  key_t key() const { return 0x7100000 + getpid(); }
  pid_t victim() const { return victim_; }
  int priority_of_victim() const { return getpriority(PRIO_PROCESS, static_cast<id_t>(victim_)); }
  // The victim has the priority of this test. Where that is the lowest, only root can change it.
  static bool has_lowest_priority() { return getpriority(PRIO_PROCESS, 0) == 19; }
  static int other_priority() { return has_lowest_priority() ? 18 : 19; }
  int pipe() const { return pipe_; }
  int stream(const std::string& kind) const {
    return kind == "tcp" ? tcp_ : kind == "abstract" ? abstract_ : unix_;
  }
  int udp() const { return udp_; }

  std::map<std::string, std::string> variables() const {
    return {{"FILES", (folder_ / "files").string()},
            {"SHARED", shared_.string()},
            {"SOCKET", (folder_ / "socket").string()},
            {"ABSTRACT", abstract_name()},
            {"TCP", std::to_string(port(tcp_))},
            {"UDP", std::to_string(port(udp_))},
            {"KEY", std::to_string(key())},
            {"VICTIM", std::to_string(victim_)},
            {"OTHER_PRIORITY", std::to_string(other_priority())},
            {"HOME", folder_.string()}};
  }

 private:
  static constexpr const char* kFiles[] = {
      "removed", "moved",   "truncated", "written", "appended", "copied-over", "linked",
      "moded",   "touched", "emptied",   "edited",  "through",  "tee",         "dd",
      "install", "swapped", "renamed",   "by-cwd",  "by-root",  "late",        "times"};

  void give(const fs::path& path) const {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) return;
    chmod(path.c_str(), S_ISDIR(status.st_mode) ? 0777 : 0666);
    if (user_ != 0 && chown(path.c_str(), user_, user_) != 0) std::abort();
  }
  std::string abstract_name() const { return fmt::format("trireme-ways-out-{}", getpid()); }
  static void bind_local(int fd) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  static int port(int fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  int listening(int family, const fs::path& path) const {
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (family == AF_INET) {
      bind_local(fd);
    } else {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      const std::string name = path.empty() ? '\0' + abstract_name() : path.string();
      std::copy(name.begin(), name.end(), address.sun_path);
      const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() +
                                               (path.empty() ? 0 : 1));
      EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    }
    EXPECT_EQ(listen(fd, 4), 0);
    return fd;
  }

  fs::path folder_, shared_;
  uid_t user_;
  int pipe_ = -1, unix_ = -1, abstract_ = -1, tcp_ = -1, udp_ = -1;
  pid_t victim_ = -1;
};

bool got_connection(int fd) {
  const int one = accept(fd, nullptr, nullptr);
  if (one >= 0) close(one);
  return one >= 0;
}

bool got_bytes(int fd) {
  char byte = 0;
  return read(fd, &byte, 1) > 0;
}

// A killed process may still wait for a processor to die on: the signal is then pending.
bool is_killed(pid_t pid) {
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  if (info.si_pid != 0) return true;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string name, value; status >> name && std::getline(status, value);) {
    if (name != "SigPnd:" && name != "ShdPnd:") continue;
    if (std::stoull(value, nullptr, 16) >> (SIGKILL - 1) & 1) return true;
  }
  return false;
}

// A way out: commands of the script and whether they got out. Without a check they say so
// themselves, by success.
struct Way {
  const char* name;
  std::string commands;
  std::function<bool(const Outside&)> out = nullptr;
  bool open = true;        // without isolation it leads out
  bool root_only = false;  // it needs root
};

std::function<bool(const Outside&)> changed(const char* name) {
  return [name](const Outside& outside) { return !outside.is_as_it_was(outside.file(name)); };
}

std::function<bool(const Outside&)> appeared(const char* name) {
  return [name](const Outside& outside) {
    return fs::exists(outside.file(name)) || fs::exists(outside.shared() / name);
  };
}

std::vector<Way> ways_out() {
  const std::string perl_socket =
      "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 1; ";
  return {
      {"rm in /dev/shm", "rm -rf $SHARED/*",
       [](const Outside& o) { return !o.is_as_it_was(o.shared() / "kept"); }},
      {"write in /dev/shm", "echo x > $SHARED/new", appeared("new")},
      {"mktemp in /dev/shm", "mv $(mktemp -p $SHARED) $SHARED/temporary", appeared("temporary")},
      {"rm", "rm $FILES/removed", changed("removed")},
      {"mv", "mv $FILES/moved $FILES/moved-away", changed("moved")},
      {"rename over", "echo x > $FILES/own; mv -f $FILES/own $FILES/renamed", changed("renamed")},
      {"truncate", "truncate -s 0 $FILES/truncated", changed("truncated")},
      {"redirection", "echo x > $FILES/written", changed("written")},
      {"append", "echo x >> $FILES/appended", changed("appended")},
      {"cp", "echo x > $TRIREME_CALLS/../x; cp $TRIREME_CALLS/../x $FILES/copied-over",
       changed("copied-over")},
      {"tee", "echo x | tee $FILES/tee", changed("tee")},
      {"dd", "dd if=/dev/zero of=$FILES/dd bs=1 count=3 conv=notrunc", changed("dd")},
      {"install", "echo x > $TRIREME_CALLS/../y; install $TRIREME_CALLS/../y $FILES/install",
       changed("install")},
      {"sed -i", "sed -i s/was/is/ $FILES/edited", changed("edited")},
      {"hard link", "ln $FILES/linked $FILES/second && echo x >> $FILES/second", changed("linked")},
      {"symbolic link", "ln -s $FILES/through through; echo x > through", changed("through")},
      {"chmod", "chmod 600 $FILES/moded", changed("moded")},
      {"touch", "touch -d 2001-01-01 $FILES/times", changed("times")},
      {"open that truncates",
       "perl -MFcntl -e 'sysopen(F, \"$ENV{FILES}/emptied\", O_RDONLY | O_TRUNC) or exit 1'",
       changed("emptied")},
      {"mkdir", "mkdir $FILES/folder", appeared("folder")},
      {"mkfifo", "mkfifo $FILES/new-pipe", appeared("new-pipe")},
      {"a pipe of the user's", "exec 5<> $FILES/pipe; echo x >&5",
       [](const Outside& o) { return got_bytes(o.pipe()); }},
      {"the folder of another process", "echo x > /proc/$VICTIM/cwd/files/by-cwd",
       changed("by-cwd")},
      {"the root of another process", "echo x > /proc/$VICTIM/root/$FILES/by-root",
       changed("by-root")},
      {"unix socket", perl_socket + "connect(S, pack_sockaddr_un($ENV{SOCKET})) or exit 1'",
       [](const Outside& o) { return got_connection(o.stream("unix")); }},
      {"abstract socket",
       perl_socket + "connect(S, pack_sockaddr_un(\"\\0$ENV{ABSTRACT}\")) or exit 1'",
       [](const Outside& o) { return got_connection(o.stream("abstract")); }},
      {"TCP", "exec 5<> /dev/tcp/127.0.0.1/$TCP",
       [](const Outside& o) { return got_connection(o.stream("tcp")); }},
      {"fast TCP",
       "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); send(S, \"x\", 0x20000000, "
       "pack_sockaddr_in($ENV{TCP}, inet_aton(\"127.0.0.1\"))) or exit 1'",
       [](const Outside& o) { return got_connection(o.stream("tcp")); }},
      {"UDP", "echo x > /dev/udp/127.0.0.1/$UDP",
       [](const Outside& o) { return got_bytes(o.udp()); }},
      {"UDP without connecting",
       "perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0) or exit 1; send(S, \"x\", 0, "
       "pack_sockaddr_in($ENV{UDP}, inet_aton(\"127.0.0.1\"))) or exit 1'",
       [](const Outside& o) { return got_bytes(o.udp()); }},
      {"shared memory of System V",
       "perl -e 'defined shmget($ENV{KEY}, 64, 0666 | 01000) or exit 1'",
       [](const Outside& o) { return shmget(o.key(), 0, 0) >= 0; }},
      {"priority of another process", "renice -n $OTHER_PRIORITY -p $VICTIM",
       [](const Outside& o) { return o.priority_of_victim() == o.other_priority(); }, true,
       Outside::has_lowest_priority()},
      {"keys",
       fmt::format("perl -e 'syscall({}, \"user\", \"trireme-test\", \"x\", 1, -3) > 0 or "
                   "exit 1'",
                   SYS_add_key),
       nullptr, false},
      {"new privileges", "grep -q '^NoNewPrivs:[[:space:]]*0' /proc/self/status"},
      {"capabilities beyond files",
       "[ $((0x$(grep ^CapPrm /proc/self/status | cut -f 2) & ~0x1f)) -ne 0 ]", nullptr, true,
       true},
      {"settings of the kernel", ": >> /proc/sys/vm/swappiness", nullptr, true, true},
      {"settings of devices", ": >> /sys/kernel/profiling", nullptr,
       fs::exists("/sys/kernel/profiling"), true},
      {"the kernel's log", "[ -c /dev/kmsg ] && : >> /dev/kmsg", nullptr, false, true},
      {"mounts", "mkdir m && mount -t tmpfs none m", nullptr, false},
      {"mounts in a namespace of its own", "unshare -rm mount -t tmpfs none /mnt", nullptr, false},
      {"open files of another process", "echo x > /proc/$VICTIM/fd/2", nullptr, false},
      {"memory of another process", ": >> /proc/$VICTIM/mem", nullptr, false},
      {"later", "(setsid sh -c 'sleep 0.3; echo x > $FILES/late' &)", changed("late")},
      {"the end of another process", "kill -9 $VICTIM",
       [](const Outside& o) { return is_killed(o.victim()); }},
  };
}

// Each way in a shell of its own; the words after the training name those that said that they led
// out.
std::string script_of(const std::vector<Way>& ways) {
  std::string text = "SAID=\n";
  for (std::size_t i = 0; i < ways.size(); ++i)
    text += fmt::format("( {} ) > /dev/null 2>&1 && SAID+=' {}'\n", ways[i].commands, i);
  return text + "python pretrain_gpt.py said $SAID\n";
}

// Namespaces and Landlock as they are missing on other machines: calls that fail.
void forbid(std::initializer_list<int> calls) {
  std::vector<sock_filter> code = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int call : calls) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) std::abort();
}

// Runs `body` in a process of `user`'s and returns what it gives.
std::string as_user(uid_t user, const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    if (user != geteuid() && (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0))
      text = "cannot become another user";
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    try {
      if (text.empty()) text = body();
    } catch (const Error& error) {
      text = std::string("refused: ") + error.what();
    }
    [[maybe_unused]] const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

struct Case {
  Isolation isolation;
  uid_t user;
};

class WaysOut : public testing::TestWithParam<Case> {
 protected:
  WaysOut()
      : folder_(
            fs::canonical(testing::TempDir()) /
            fmt::format("trireme_ways_{}_{}", getpid(), static_cast<int>(GetParam().isolation))) {}

  // The names of the ways that led out.
  std::vector<std::string> escaped(const Outside& outside, const std::vector<Way>& ways) {
    std::ofstream(folder_ / "run.sh") << script_of(ways);
    ScriptOptions options;
    options.isolations = {GetParam().isolation};
    options.variables = outside.variables();
    const std::string said = as_user(GetParam().user, [&] {
      fs::current_path(folder_);
      const ScriptRun run = run_script(folder_ / "run.sh", options);
      const auto launches = find_launches(run);
      if (launches.size() != 1) return "no launch: " + run.problem + run.output;
      std::string words;
      for (const std::string& word : launches[0].arguments) words += word + " ";
      return words;
    });
    EXPECT_THAT(said, testing::StartsWith("said "));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const bool by_word = (said + " ").find(fmt::format(" {} ", i)) != std::string::npos;
      if (ways[i].out ? ways[i].out(outside) : by_word) names.emplace_back(ways[i].name);
    }
    return names;
  }

  fs::path folder_;
};

TEST_P(WaysOut, AreClosed) {
  const auto [isolation, user] = GetParam();
  if (geteuid() != 0 && user == 0) GTEST_SKIP() << "not root";
  const Outside outside(folder_, geteuid() == 0 ? user : geteuid());
  EXPECT_THAT(escaped(outside, ways_out()), IsEmpty());
}

// Without isolation each is a way out, or the test above would prove nothing.
using WaysOutOfNothing = WaysOut;
TEST_P(WaysOutOfNothing, AreOpen) {
  const auto [isolation, user] = GetParam();
  if (geteuid() != 0 && user == 0) GTEST_SKIP() << "not root";
  if (::system("perl -MSocket -e 1 2> /dev/null") != 0) GTEST_SKIP() << "there is no perl";
  const Outside outside(folder_, geteuid() == 0 ? user : geteuid());
  std::vector<Way> ways;
  for (Way& way : ways_out()) {
    if (way.open && (user == 0 || !way.root_only)) ways.push_back(std::move(way));
  }
  const std::vector<std::string> out = escaped(outside, ways);
  for (const Way& way : ways) EXPECT_THAT(out, testing::Contains(way.name));
}

INSTANTIATE_TEST_SUITE_P(Sandbox, WaysOut,
                         testing::Values(Case{Isolation::overlay, 0},
                                         Case{Isolation::overlay, kNobody},
                                         Case{Isolation::landlock, 0},
                                         Case{Isolation::landlock, kNobody}));
INSTANTIATE_TEST_SUITE_P(Sandbox, WaysOutOfNothing,
                         testing::Values(Case{Isolation::none, 0}, Case{Isolation::none, kNobody}));

std::string reached(const ScriptOptions& options) {
  const script::Reached reached = reach_isolation(options);
  return fmt::format("{} {}", static_cast<int>(reached.isolation), reached.weaker);
}

TEST(Isolation, IsWhatTheMachineCanKeep) {
  EXPECT_EQ(as_user(geteuid(), [] { return reached({}); }), "0 ");
  EXPECT_THAT(as_user(geteuid(),
                      [] {
                        forbid({SYS_unshare});
                        return reached({});
                      }),
              testing::StartsWith("1 namespaces: "));
  for (const auto& missing : {std::initializer_list<int>{SYS_unshare, 444},
                              std::initializer_list<int>{SYS_unshare, SYS_capset}}) {
    EXPECT_THAT(as_user(geteuid(),
                        [&] {
                          forbid(missing);
                          return reached({});
                        }),
                testing::AllOf(testing::StartsWith("refused: the script was not run"),
                               HasSubstr("--isolation none")));
  }
}

}  // namespace
}  // namespace trireme::megatron
