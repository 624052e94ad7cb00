// Functions of a GPU's runtime used by the device and its queues, with the same interface for CUDA,
// HIP and the emulated GPU. Every failure throws an error that names the call.
#pragma once

#include <cstdint>
#include <string>

#include "backend/collectives.h"
#include "backend/gpu/which.h"

#if TRIREME_EMULATED
#include "backend/gpu/emulated/runtime.h"
#else
#include "backend/gpu/vendor/runtime.h"
#endif

namespace trireme::gpu::runtime {

// Reason why no GPU can be used: no driver, driver too old, no GPU. Empty if one can.
std::string why_no_device();
// Number of GPUs visible to this process.
int device_count();
// Starts the runtime. Must precede MPI, or the launchers of some machines (Frontier) fail.
void start();
// Selects the GPU of all calls below, in all threads. Called once, before them.
void select(int device);
// PCI address of the GPU ("0000:81:00.0"; empty if unknown), and the NUMA node of the
// host closest to it, or -1.
std::string address(int device);
int numa_node(int device);
// Address of the selected GPU.
std::string address();
// Total memory, used or not; 0 if unknown.
std::int64_t memory_bytes();

// "NVIDIA H100", and a signature that must match on all ranks: model, driver, library versions.
std::string device_name();
std::string device_signature();

// Returns null if out of memory. The contents are undefined.
void* allocate(std::int64_t bytes);
void release(void* memory, std::int64_t bytes);
void* allocate_pinned(std::int64_t bytes);
void release_pinned(void* memory, std::int64_t bytes);

// Kernels of an urgent stream are scheduled before pending kernels of other streams.
Stream make_stream(bool urgent);
void destroy(Stream);
Event make_event();
// Events with timestamps; seconds_between() needs two completed ones.
Event make_timed_event();
double seconds_between(Event begin, Event end);
void destroy(Event);

// Between device memory and device or pinned host memory.
void copy(void* dst, const void* src, std::int64_t bytes, Stream);
void fill(void* dst, std::uint8_t byte, std::int64_t bytes, Stream);
void record(Event, Stream);
void wait(Event, Stream);
void synchronize(Stream);
void synchronize(Event);
bool has_passed(Event);
// Like has_passed(); an emulated device first runs ready work, as a real one does by itself.
bool make_progress(Event);

// The collective library, or null with the reason in `problem`.
const CollectiveTable* collectives(std::string& problem);

}  // namespace trireme::gpu::runtime
