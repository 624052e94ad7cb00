// Builds the seccomp filter: rules are checked in order, and the first match decides.
#include "importers/script/system_calls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace trireme::script {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the sandbox of import-args supports only x86-64 and ARM"
#endif

// Numbers of system calls missing in older headers; the same on all architectures.
constexpr int kFchmodat2 = 452, kSetxattrat = 463, kRemovexattrat = 466, kOpenTreeAttr = 467,
              kFileSetattr = 469, kIoUringSetup = 425, kIoUringEnter = 426, kIoUringRegister = 427,
              kOpenTree = 428, kMoveMount = 429, kFsopen = 430, kFsconfig = 431, kFsmount = 432,
              kFspick = 433, kClone3 = 435, kOpenat2 = 437, kPidfdGetfd = 438,
              kProcessMadvise = 440, kMountSetattr = 442, kQuotactlFd = 443, kPidfdSendSignal = 424,
              kProcessMrelease = 448;
// System calls beyond this number are unknown here.
constexpr std::uint32_t kLastKnown = 469;

constexpr std::uint32_t kNewNamespaces = 0x7e020080;  // every CLONE_NEW*
constexpr std::uint32_t kFastOpen = 0x20000000;       // MSG_FASTOPEN

// A condition on the lower 32 bits of an argument.
struct Condition {
  unsigned argument;
  std::uint32_t mask;
  bool equal;
  std::uint32_t value;
};

Condition is(unsigned argument, std::uint32_t value) {
  return {argument, ~0U, true, value};
}
Condition is_not(unsigned argument, std::uint32_t value) {
  return {argument, ~0U, false, value};
}
Condition has_any(unsigned argument, std::uint32_t bits) {
  return {argument, bits, false, 0};
}

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
    answer(ENOSYS);
    load(offsetof(seccomp_data, nr));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kLastKnown, 0, 1));
    answer(ENOSYS);
  }

  // Makes the call return `error` if all conditions hold; 0: it does nothing and reports success.
  void deny(int call, int error, std::initializer_list<Condition> conditions = {}) {
    std::vector<sock_filter> rule;
    rule.swap(code_);
    for (const Condition& condition : conditions) {
      load(static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * condition.argument));
      code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, condition.mask));
      code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, condition.value, 0, 0));
    }
    answer(error);
    rule.swap(code_);
    std::size_t last = rule.size();  // jump target if the rule does not match
    for (std::size_t i = 2, c = 0; c < conditions.size(); i += 3, ++c) {
      const auto skip = static_cast<std::uint8_t>(last - i - 1);
      (std::data(conditions)[c].equal ? rule[i].jf : rule[i].jt) = skip;
    }
    load(offsetof(seccomp_data, nr));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0,
                             static_cast<std::uint8_t>(last)));
    code_.insert(code_.end(), rule.begin(), rule.end());
  }
  void deny_all(int error, std::initializer_list<int> calls) {
    for (const int call : calls) deny(call, error);
  }

  bool install() {
    code_.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  void load(std::size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  }
  void answer(int error) {
    code_.push_back(
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)));
  }

  std::vector<sock_filter> code_;
};

// Sockets can be created and bound, since scripts look for a free port, but not connected.
// NETLINK_ROUTE sockets can list network interfaces.
void deny_connections(Filter& filter) {
  filter.deny(SYS_socket, EACCES, {is_not(0, AF_INET), is_not(0, AF_INET6), is_not(0, AF_NETLINK)});
  filter.deny(SYS_socket, EACCES, {is(0, AF_NETLINK), is_not(2, 0)});
  filter.deny(SYS_socket, EACCES, {is_not(0, AF_NETLINK), {1, 0xf, false, SOCK_STREAM}});
  filter.deny(SYS_socket, EACCES, {is_not(0, AF_NETLINK), is_not(2, 0), is_not(2, IPPROTO_TCP)});
  filter.deny(SYS_connect, ENETUNREACH);
  filter.deny(SYS_listen, 0);
  filter.deny_all(EACCES, {SYS_accept, SYS_accept4});
  filter.deny(SYS_sendto, EACCES, {has_any(3, kFastOpen)});
  filter.deny(SYS_sendmsg, EACCES, {has_any(2, kFastOpen)});
  filter.deny(SYS_sendmmsg, EACCES, {has_any(3, kFastOpen)});
  // Its requests would bypass this filter.
  filter.deny_all(ENOSYS, {kIoUringSetup, kIoUringEnter, kIoUringRegister});
}

void deny_administration(Filter& filter) {
  filter.deny_all(EPERM, {SYS_mount,
                          SYS_umount2,
                          SYS_pivot_root,
                          SYS_chroot,
                          kOpenTree,
                          kMoveMount,
                          kFsopen,
                          kFsconfig,
                          kFsmount,
                          kFspick,
                          kMountSetattr,
                          kOpenTreeAttr,
                          SYS_setns,
                          SYS_unshare,
                          SYS_ptrace,
                          SYS_process_vm_readv,
                          SYS_process_vm_writev,
                          kPidfdGetfd,
                          SYS_kcmp,
                          kProcessMadvise,
                          kProcessMrelease,
                          SYS_migrate_pages,
                          SYS_move_pages,
                          SYS_open_by_handle_at,
                          SYS_name_to_handle_at,
                          SYS_bpf,
                          SYS_perf_event_open,
                          SYS_userfaultfd,
                          SYS_fanotify_init,
                          SYS_keyctl,
                          SYS_add_key,
                          SYS_request_key,
                          SYS_kexec_load,
                          SYS_init_module,
                          SYS_finit_module,
                          SYS_delete_module,
                          SYS_reboot,
                          SYS_swapon,
                          SYS_swapoff,
                          SYS_acct,
                          SYS_quotactl,
                          kQuotactlFd,
                          SYS_settimeofday,
                          SYS_clock_settime,
                          SYS_clock_adjtime,
                          SYS_adjtimex,
                          SYS_sethostname,
                          SYS_setdomainname,
                          SYS_syslog,
                          SYS_vhangup});
#ifdef __x86_64__
  filter.deny_all(EPERM, {SYS_iopl, SYS_ioperm});
#endif
  filter.deny(SYS_clone, EPERM, {has_any(0, kNewNamespaces)});
  filter.deny(kClone3, ENOSYS);  // the filter cannot see its flags; libraries fall back to clone
  // Requests that inject characters into a terminal's input.
  for (const std::uint32_t request : {0x5412U, 0x541cU})
    filter.deny(SYS_ioctl, EPERM, {is(1, request)});
}

// Signals appear to be sent, so that a script that ends its helpers continues; they end with it.
void deny_other_processes(Filter& filter) {
  filter.deny_all(0, {SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
                      kPidfdSendSignal});
  filter.deny_all(
      ENOSYS, {SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semop, SYS_semctl, SYS_semtimedop,
               SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink});
  filter.deny(SYS_prlimit64, EPERM, {is_not(0, 0)});
  filter.deny(SYS_setpriority, EPERM, {is_not(0, PRIO_PROCESS)});
  filter.deny(SYS_setpriority, EPERM, {is_not(1, 0)});
  filter.deny(SYS_ioprio_set, EPERM, {is_not(1, 0)});
  for (const int call :
       {SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr})
    filter.deny(call, EPERM, {is_not(0, 0)});
}

// Operations that Landlock does not cover, or only in newer kernels.
void deny_attributes(Filter& filter) {
  filter.deny_all(0,
                  {SYS_fchmod, SYS_fchmodat, kFchmodat2, SYS_fchown, SYS_fchownat, SYS_utimensat});
  filter.deny_all(EOPNOTSUPP,
                  {SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, kSetxattrat, SYS_removexattr,
                   SYS_lremovexattr, SYS_fremovexattr, kRemovexattrat, kFileSetattr});
  filter.deny(SYS_truncate, EACCES);
  const std::uint32_t truncates = O_TRUNC | O_ACCMODE;
  filter.deny(SYS_openat, EACCES, {{2, truncates, true, O_TRUNC}});
  filter.deny(kOpenat2, ENOSYS);  // its flags are in memory, invisible to the filter
#ifdef __x86_64__
  filter.deny_all(0, {SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat});
  filter.deny(SYS_open, EACCES, {{1, truncates, true, O_TRUNC}});
#endif
  // File flags and attributes; trimming.
  for (const std::uint32_t request : {0x40086602U, 0x401c5820U, 0x40087602U, 0xc0185879U})
    filter.deny(SYS_ioctl, EPERM, {is(1, request)});
}

// Drops capabilities, also of root. Root keeps access to other users' files: full access if they
// are copies, else read access.
bool drop_capabilities(bool own_files) {
  const std::uint32_t kept = own_files
                                 ? 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER |
                                       1U << CAP_FSETID | 1U << CAP_DAC_READ_SEARCH
                                 : 1U << CAP_DAC_READ_SEARCH;
  for (unsigned long one = 0; one < 64; ++one) {
    if (one >= 32 || !(kept >> one & 1)) prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  data[0].permitted &= geteuid() == 0 ? kept : 0;
  data[0].effective = data[0].permitted;
  data[0].inheritable = 0;
  data[1] = {};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_capset, &header, data) == 0;
}

}  // namespace

std::string filter_calls(const CallFilter& filter) {
  if (!drop_capabilities(filter.own_files))
    return fmt::format("capabilities: {}", std::strerror(errno));
  Filter calls;
  deny_connections(calls);
  deny_administration(calls);
  if (!filter.own_processes) deny_other_processes(calls);
  if (!filter.own_files) deny_attributes(calls);
  if (!calls.install()) return fmt::format("a filter of system calls: {}", std::strerror(errno));
  return "";
}

}  // namespace trireme::script
