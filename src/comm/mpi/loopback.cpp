// Preloaded into the launcher of `--nproc` and its processes: a socket that would listen on all
// interfaces listens on the loopback interface. Neither Open MPI's mpirun nor MPICH's mpiexec has a
// parameter for it; their choice of interfaces covers only the addresses that they connect to.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// Calls nothing that an older C library lacks, since the launcher may use one.
extern "C" __attribute__((visibility("default"))) int bind(int socket, const sockaddr* address,
                                                           socklen_t length) noexcept {
  sockaddr_in ip4;
  sockaddr_in6 ip6;
  if (address && address->sa_family == AF_INET && length >= sizeof ip4) {
    ip4 = *reinterpret_cast<const sockaddr_in*>(address);
    if (ip4.sin_addr.s_addr == htonl(INADDR_ANY)) ip4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address = reinterpret_cast<const sockaddr*>(&ip4);
  } else if (address && address->sa_family == AF_INET6 && length >= sizeof ip6) {
    ip6 = *reinterpret_cast<const sockaddr_in6*>(address);
    if (IN6_IS_ADDR_UNSPECIFIED(&ip6.sin6_addr)) ip6.sin6_addr = in6addr_loopback;
    address = reinterpret_cast<const sockaddr*>(&ip6);
  }
  return static_cast<int>(::syscall(SYS_bind, socket, address, length));
}
