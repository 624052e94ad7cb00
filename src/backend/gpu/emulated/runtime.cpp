// runtime.h on the emulated GPU: copies and fills are stream work like any kernel.
#include "backend/gpu/runtime.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "backend/gpu/emulated/block.h"
#include "backend/gpu/emulated/collectives.h"
#include "backend/gpu/emulated/fault.h"
#include "backend/gpu/emulated/memory.h"
#include "backend/gpu/environment.h"
#include "backend/gpu/machine.h"
#include "base/error.h"

namespace trireme::gpu::runtime {
namespace {

int selected = 0;

void check_side(const void* p, std::int64_t bytes, bool device_only) {
  const emulated::Side side = emulated::side_of(p, static_cast<std::size_t>(bytes));
  if (side == emulated::Side::host)
    emulated::stop("an asynchronous copy of host memory that is not pinned");
  if (device_only && side != emulated::Side::device)
    emulated::stop("a fill of memory that is not the device's");
}

}  // namespace

std::string why_no_device() {
  return emulated::planted(emulated::Fault::no_driver) ? "no driver is loaded on this machine" : "";
}

// The largest number of ranks a node may have, unless a test sets the number.
int device_count() {
  constexpr int enough = 1024;
  const char* const text = std::getenv("TRIREME_EMULATED_DEVICES");
  return text ? std::atoi(text) : enough;
}

DeviceKind kind() {
  return DeviceKind::emulated;
}

void prepare() {
  // NVIDIA's settings, for the tests of environments.
  set_environment(driver_settings(false));
}

// The launchers of some machines fail if a GPU's runtime starts after MPI.
void start() {
  const auto asks = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "MPI_Initialized"));
  int mpi_runs = 0;
  if (asks && asks(&mpi_runs) == 0 && mpi_runs) fail("the GPU's runtime was started after MPI");
}

void select(int device) {
  selected = device;
}
std::string address(int device) {
  return "emulated:" + std::to_string(device);
}
std::string address() {
  return address(selected);
}
int numa_node(int) {
  return -1;
}

std::int64_t memory_bytes() {
  return emulated::device_memory_limit();
}
std::int64_t free_bytes() {
  return emulated::device_memory_free();
}

double matrix_rate(int) {
  return emulated::planted(emulated::Fault::large) ? 1e15 : 0;
}
double matrix_rate() {
  return matrix_rate(selected);
}
std::string why_no_kernel(const void*) {
  if (!emulated::planted(emulated::Fault::no_kernels)) return "";
  return "this build has no kernels for " + device_name();
}

std::string device_name() {
  return "the emulated GPU with waves of " + std::to_string(emulated::wave_width);
}
std::string device_signature() {
  return "emulated " + std::to_string(emulated::wave_width);
}

void* allocate(std::int64_t bytes) {
  return emulated::allocate_device_memory(static_cast<std::size_t>(bytes));
}
void release(void* memory, std::int64_t bytes) {
  emulated::release_device_memory(memory, static_cast<std::size_t>(bytes));
}
void* allocate_pinned(std::int64_t bytes) {
  return emulated::allocate_pinned(static_cast<std::size_t>(bytes));
}
void release_pinned(void* memory, std::int64_t bytes) {
  emulated::release_pinned(memory, static_cast<std::size_t>(bytes));
}

Stream make_stream(bool) {
  if (const std::string problem = why_no_device(); !problem.empty()) fail("{}", problem);
  if (const char* const seed = std::getenv("TRIREME_STREAM_ORDER"))
    emulated::set_stream_order(std::strtoull(seed, nullptr, 10));
  return emulated::make_stream();
}
void destroy(Stream stream) {
  emulated::destroy_stream(stream);
}
Event make_event() {
  return emulated::make_event();
}
Event make_timed_event() {
  return emulated::make_event();
}
// An emulation cannot measure time: returns a microsecond.
double seconds_between(Event, Event) {
  return 1e-6;
}
void destroy(Event event) {
  emulated::destroy_event(event);
}

void copy(void* dst, const void* src, std::int64_t bytes, Stream stream) {
  check_side(dst, bytes, false);
  check_side(src, bytes, false);
  const bool flip = emulated::planted(emulated::Fault::wrong_results) &&
                    emulated::side_of(dst, 1) == emulated::Side::pinned;
  emulated::enqueue(stream, [=] {
    std::memcpy(dst, src, static_cast<std::size_t>(bytes));
    if (flip) static_cast<unsigned char*>(dst)[bytes - 1] ^= 0x40;
  });
}

void fill(void* dst, std::uint8_t byte, std::int64_t bytes, Stream stream) {
  check_side(dst, bytes, true);
  emulated::enqueue(stream, [=] { std::memset(dst, byte, static_cast<std::size_t>(bytes)); });
}

void record(Event event, Stream stream) {
  emulated::record(stream, event);
}
void wait(Event event, Stream stream) {
  emulated::wait(stream, event);
}
void synchronize(Stream stream) {
  emulated::synchronize(stream);
}
void synchronize(Event event) {
  emulated::synchronize(event);
}
bool has_passed(Event event) {
  return emulated::has_passed(event);
}
bool make_progress(Event event) {
  return emulated::make_progress(event);
}

const CollectiveTable* collectives(std::string& problem) {
  const char* const wanted = std::getenv("TRIREME_EMULATED_COLLECTIVES");
  if (!wanted || std::string(wanted) != "none") return &emulated::substitute_collectives();
  problem = "TRIREME_EMULATED_COLLECTIVES is none";
  return nullptr;
}

}  // namespace trireme::gpu::runtime
