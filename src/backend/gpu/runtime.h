// Functions of a GPU's runtime that the device and its queues need: the same few for CUDA, HIP and
// the emulated GPU. Every failure is an error that names the call.
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

// Why no device can be used: no driver, one that is too old, no device. Empty if one can.
std::string why_no_device();
// GPUs that this process sees.
int device_count();
// Starts the runtime; before MPI is, or the launchers of some machines fail (those of Frontier do).
void start();
// All that follows is about this one of them, in every thread. Once, before it.
void select(int device);
// Where it is plugged in ("0000:81:00.0"; empty where that is not known), and the NUMA node of the
// host that is near to it, or -1.
std::string address(int device);
int numa_node(int device);
// The selected one.
std::string address();
// In all, used or not; 0 where that is not known.
std::int64_t memory_bytes();

// "NVIDIA H100", and what must be the same on all ranks: model, driver, library versions.
std::string device_name();
std::string device_signature();

// Null if there is none left. What it holds is not defined.
void* allocate(std::int64_t bytes);
void release(void* memory, std::int64_t bytes);
void* allocate_pinned(std::int64_t bytes);
void release_pinned(void* memory, std::int64_t bytes);

// Kernels of an urgent stream come before those of others that wait for a place to run.
Stream make_stream(bool urgent);
void destroy(Stream);
Event make_event();
// With a time, which seconds_between() reads when both have passed.
Event make_timed_event();
double seconds_between(Event begin, Event end);
void destroy(Event);

// Between device memory and device or pinned memory.
void copy(void* dst, const void* src, std::int64_t bytes, Stream);
void fill(void* dst, std::uint8_t byte, std::int64_t bytes, Stream);
void record(Event, Stream);
void wait(Event, Stream);
void synchronize(Stream);
void synchronize(Event);
bool has_passed(Event);
// As above; an emulated device first does what it can, as a real one does by itself.
bool make_progress(Event);

// The library of collectives; null where there is none, for which `problem` gives the reason.
const CollectiveTable* collectives(std::string& problem);

}  // namespace trireme::gpu::runtime
