// A preloaded library that counts its process's calls of MPI, and the memory that the program maps
// for its regions. Each rank writes its counts to TRIREME_TEST_COUNTS.RANK, one per line: kind,
// group, calls, bytes. A group is its number in order of creation and its world ranks, "3:0,1";
// copies of the world are "-".
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

// The real functions, under the names that MPI reserves for its profiling interface.
template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}
#define REAL(name) real<decltype(name)>("P" #name)

struct Count {
  long calls = 0, bytes = 0;
};

class Counts {
 public:
  Counts() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
      if (const char* value = std::getenv(name)) rank_ = std::atoi(value);
    }
  }
  ~Counts() {
    const char* file = std::getenv("TRIREME_TEST_COUNTS");
    if (!file || rank_ < 0) return;
    std::FILE* out = std::fopen((std::string(file) + "." + std::to_string(rank_)).c_str(), "w");
    if (!out) return;
    for (const auto& [what, count] : counts_)
      std::fprintf(out, "%s %s %ld %ld\n", what.first.c_str(), what.second.c_str(), count.calls,
                   count.bytes);
    std::fclose(out);
  }

  void add(const std::string& what, const std::string& group, long bytes) {
    const std::lock_guard lock(mutex_);
    Count& count = counts_[{what, group}];
    ++count.calls;
    count.bytes += bytes;
  }
  void name(MPI_Comm group, std::string members) {
    const std::lock_guard lock(mutex_);
    if (members != "-") members = std::to_string(++made_) + ":" + members;
    groups_.emplace_back(group, std::move(members));
  }
  std::string name_of(MPI_Comm group) {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, members] : groups_)
      if (known == group) return members;
    return "unknown";
  }

 private:
  int rank_ = -1, made_ = 0;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Count> counts_;
  std::vector<std::pair<MPI_Comm, std::string>> groups_;
};

Counts& counts() {
  static Counts the;
  return the;
}

long bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  REAL(MPI_Type_size)(type, &size);
  return static_cast<long>(count) * size;
}

// Returns whether an address is in the program itself, not in a library.
bool is_of_program(const void* address) {
  Dl_info info;
  void* map = nullptr;
  return ::dladdr1(address, &info, &map, RTLD_DL_LINKMAP) &&
         !static_cast<const link_map*>(map)->l_prev;
}

}  // namespace

extern "C" {

int MPI_Comm_dup(MPI_Comm group, MPI_Comm* copy) {
  const int code = REAL(MPI_Comm_dup)(group, copy);
  counts().name(*copy, "-");
  return code;
}

int MPI_Comm_create_group(MPI_Comm world, MPI_Group members, int tag, MPI_Comm* made) {
  const int code = REAL(MPI_Comm_create_group)(world, members, tag, made);
  MPI_Group all;
  int size = 0;
  REAL(MPI_Comm_group)(world, &all);
  REAL(MPI_Group_size)(members, &size);
  std::vector<int> own(size), ranks(size);
  for (int i = 0; i < size; ++i) own[i] = i;
  REAL(MPI_Group_translate_ranks)(members, size, own.data(), all, ranks.data());
  std::string name;
  for (const int rank : ranks) name += (name.empty() ? "" : ",") + std::to_string(rank);
  counts().name(*made, name);
  return code;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm group,
              MPI_Request* request) {
  static const auto next = REAL(MPI_Isend);
  counts().add("send", counts().name_of(group), bytes_of(count, type));
  return next(data, count, type, peer, tag, group, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm group,
              MPI_Request* request) {
  static const auto next = REAL(MPI_Irecv);
  counts().add("receive", counts().name_of(group), bytes_of(count, type));
  return next(data, count, type, peer, tag, group, request);
}

// Other functions that could move data: a step must not call any of them.
#define COUNT_OTHER(name, parameters, arguments) \
  int name parameters {                          \
    counts().add("other", #name, 0);             \
    return REAL(name) arguments;                 \
  }
COUNT_OTHER(MPI_Send, (const void* data, int n, MPI_Datatype t, int peer, int tag, MPI_Comm g),
            (data, n, t, peer, tag, g))
COUNT_OTHER(MPI_Recv,
            (void* data, int n, MPI_Datatype t, int peer, int tag, MPI_Comm g, MPI_Status* s),
            (data, n, t, peer, tag, g, s))
COUNT_OTHER(MPI_Bcast, (void* data, int n, MPI_Datatype t, int root, MPI_Comm g),
            (data, n, t, root, g))
COUNT_OTHER(MPI_Allreduce,
            (const void* from, void* to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm g),
            (from, to, n, t, op, g))
COUNT_OTHER(MPI_Iallreduce,
            (const void* from, void* to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm g,
             MPI_Request* r),
            (from, to, n, t, op, g, r))
COUNT_OTHER(MPI_Allgather,
            (const void* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u, MPI_Comm g),
            (from, n, t, to, m, u, g))
COUNT_OTHER(MPI_Ialltoall,
            (const void* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u, MPI_Comm g,
             MPI_Request* r),
            (from, n, t, to, m, u, g, r))
COUNT_OTHER(MPI_Alltoall,
            (const void* from, int n, MPI_Datatype t, void* to, int m, MPI_Datatype u, MPI_Comm g),
            (from, n, t, to, m, u, g))

// Counts anonymous memory that the program itself maps: its regions.
void* mmap(void* address, std::size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  if ((flags & MAP_NORESERVE) && (flags & MAP_ANONYMOUS) &&
      is_of_program(__builtin_return_address(0)))
    counts().add("map", "-", static_cast<long>(bytes));
  return reinterpret_cast<void*>(
      ::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

}  // extern "C"
