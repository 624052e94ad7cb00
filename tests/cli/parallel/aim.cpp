// A preloaded library that ends or stops its process inside a chosen call: the n-th matrix product
// or the n-th long message. TRIREME_TEST_AIM is "RANK KIND NUMBER SIGNAL"; number 0 has no target.
// Other kinds only disturb: `nap` makes each product take this many microseconds longer (given in
// place of the signal), `flip` flips a bit of the n-th result, `nan` sets its first number to NaN,
// `error` makes the n-th product fail, `unsent` the n-th long message, and `mute` drops all
// messages from the n-th on, like a dead link. Each rank writes its counts to
// TRIREME_TEST_COUNTS.RANK.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "once.h"

namespace {

using namespace trireme::testing_cli;

constexpr int long_message = 2048;  // bytes: gradients have more, all other messages less

struct Aim {
  const int rank = launched_rank();
  bool here = false;
  char kind[16] = "";
  long number = 0;
  int signal = 0;
  std::atomic<long> products{0}, messages{0};

  Aim() {
    int wanted = -1;
    const char* text = std::getenv("TRIREME_TEST_AIM");
    if (text && std::sscanf(text, "%d %15s %ld %d", &wanted, kind, &number, &signal) == 4)
      here = is_rank(wanted);
  }
  ~Aim() {
    const char* file = std::getenv("TRIREME_TEST_COUNTS");
    // Launchers and supervisors do not compute anything.
    if (!file || products == 0) return;
    char path[4096];
    std::snprintf(path, sizeof path, "%s.%d", file, rank < 0 ? 0 : rank);
    if (std::FILE* out = std::fopen(path, "w")) {
      std::fprintf(out, "%ld %ld\n", products.load(), messages.load());
      std::fclose(out);
    }
  }
  bool is_of(const char* what) const { return here && std::strcmp(kind, what) == 0; }
  void count(std::atomic<long>& counter, const char* what) {
    if (++counter == number && is_of(what) && is_to_happen()) ::kill(::getpid(), signal);
  }
  // Returns whether the product just counted is the target of this kind.
  bool hits(const char* what) { return is_of(what) && products == number && is_to_happen(); }
  bool hits_message(const char* what) {
    return is_of(what) && messages == number && is_to_happen();
  }
};

Aim& aim() {
  static Aim the;
  return the;
}

// Matches oneDNN's header.
struct Argument {
  int kind;
  void* memory;
};
constexpr int destination = 17;
constexpr int runtime_error = 5;
constexpr int some_error = 16;      // exists in every MPI
constexpr int unheard_tag = 31999;  // no message uses it

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

void flip_a_bit(void* data) {
  static_cast<unsigned char*>(data)[0] ^= 1;
}

void make_not_a_number(void* data) {
  const float value = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(data, &value, sizeof value);
}

// Runs a product and applies the planned fault to it. spoil(change) modifies the result, whose
// first number has 32 bits.
template <class Run, class Spoil>
int product(const Run& run, const Spoil& spoil) {
  aim().count(aim().products, "product");
  if (aim().is_of("nap")) ::usleep(static_cast<useconds_t>(aim().signal));
  if (aim().hits("error")) return runtime_error;
  const int status = run();
  if (aim().hits("flip")) spoil(flip_a_bit);
  if (aim().hits("nan")) spoil(make_not_a_number);
  return status;
}

// Products that run on Trireme's own kernels call no library: this keeps them on oneDNN, with the
// same bits.
__attribute__((constructor)) void keep_products_on_onednn() {
  ::setenv("TRIREME_ONEDNN", "1", 1);
}

}  // namespace

extern "C" {

// oneDNN's products: via a primitive, and the ones for AVX2.
int dnnl_primitive_execute(const void* primitive, void* stream, int arguments, const void* list) {
  static const auto next =
      real<int (*)(const void*, void*, int, const void*)>("dnnl_primitive_execute");
  static const auto handle = real<int (*)(const void*, void**)>("dnnl_memory_get_data_handle");
  return product([&] { return next(primitive, stream, arguments, list); },
                 [&](void (*change)(void*)) {
                   const Argument* const all = static_cast<const Argument*>(list);
                   for (int i = 0; i < arguments; ++i) {
                     void* data = nullptr;
                     if (all[i].kind == destination && handle(all[i].memory, &data) == 0 && data)
                       change(data);
                   }
                 });
}

int dnnl_sgemm(char a_transposed, char b_transposed, long m, long n, long k, float alpha,
               const float* a, long lda, const float* b, long ldb, float beta, float* c, long ldc) {
  using Sgemm = int (*)(char, char, long, long, long, float, const float*, long, const float*, long,
                        float, float*, long);
  static const auto next = real<Sgemm>("dnnl_sgemm");
  return product(
      [&] {
        return next(a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
      },
      [&](void (*change)(void*)) { change(c); });
}

// MPI handles are integers in one library and pointers in another: all pass through unchanged.
int MPI_Isend(const void* data, int count, void* type, int peer, int tag, void* group,
              void* request) {
  using Send = int (*)(const void*, int, void*, int, int, void*, void*);
  static const auto next = reinterpret_cast<Send>(::dlsym(RTLD_DEFAULT, "PMPI_Isend"));
  if (count >= long_message) {
    aim().count(aim().messages, "message");
    if (aim().hits_message("unsent")) return some_error;
    if (aim().is_of("mute") && aim().messages >= aim().number) {
      // A request that never completes.
      using Receive = int (*)(void*, int, void*, int, int, void*, void*);
      static const auto receive = reinterpret_cast<Receive>(::dlsym(RTLD_DEFAULT, "PMPI_Irecv"));
      return receive(nullptr, 0, type, peer, unheard_tag, group, request);
    }
  }
  return next(data, count, type, peer, tag, group, request);
}

}  // extern "C"
