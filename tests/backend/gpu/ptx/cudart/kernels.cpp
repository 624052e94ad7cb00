// Kernel registration, as nvcc's host code does it before main(), and launches.
#include "backend/gpu/ptx/cudart/kernels.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/gpu/ptx/contract.h"
#include "backend/gpu/ptx/cudart/driver.h"
#include "backend/gpu/ptx/cudart/report.h"
#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/memory.h"
#include "backend/gpu/ptx/run.h"

namespace trireme::ptx {
namespace {

// Limits of a multiprocessor of sm_80 (CUDA C++ Programming Guide, "Technical Specifications").
constexpr std::int64_t shared_without_asking = 48 << 10, most_shared = 163 << 10;
constexpr unsigned most_threads = 1024, most_blocks_y = 65535, most_blocks_x = 0x7fffffff;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "trireme: substitute for CUDA: %s\n", why.c_str());
  std::abort();
}

// Extracts the PTX text from nvcc's embedded data: a header (magic number, sizes), then entries,
// one of which is the text.
std::string ptx_of(const void* registered) {
  struct Wrapper {
    std::uint32_t magic, version;
    const char* data;
    const void* unused;
  };
  struct Header {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t bytes;
  };
  const auto* const wrapper = static_cast<const Wrapper*>(registered);
  Header header{};
  if (wrapper->magic != 0x466243b1) stop("what nvcc registers has changed");
  std::memcpy(&header, wrapper->data, sizeof header);
  if (header.magic != 0xba55ed50) stop("what nvcc embeds has changed");
  const std::string_view all(wrapper->data + header.header_bytes, header.bytes);
  const std::size_t begin = all.find("\n.version ");
  if (begin == std::string_view::npos)
    stop("a file has no PTX that can be read: compile with code=compute_80 and --no-compress");
  return std::string(all.substr(begin, all.find('\0', begin) - begin));
}

// Applies TRIREME_PTX_PLANT.
void plant(KernelText& kernel) {
  const char* const setting = std::getenv("TRIREME_PTX_PLANT");
  if (!setting) return;
  std::vector<std::string> parts(1);
  for (const char* c = setting; *c; ++c) {
    if (*c == '|' && parts.size() < 4) {
      parts.emplace_back();
    } else {
      parts.back() += *c;
    }
  }
  if (parts.size() != 4) stop("TRIREME_PTX_PLANT is KERNEL|FIND|N|REPLACE");
  if (kernel.name.find(parts[0]) == std::string::npos) return;
  const int wanted = std::atoi(parts[2].c_str());
  int found = 0;
  for (std::size_t at = 0; (at = kernel.body.find(parts[1], at)) != std::string::npos;) {
    if (++found == wanted || wanted == 0) {
      kernel.body.replace(at, parts[1].size(), parts[3]);
      at += parts[3].size();
    } else {
      at += parts[1].size();
    }
  }
}

struct Module {
  std::string text;
  std::optional<ModuleText> parsed;
  Addresses globals;

  const ModuleText& read() {
    if (parsed) return *parsed;
    parsed = parse(text);
    for (const Variable& v : parsed->global) {
      void* const memory = DeviceMemory::instance().allocate(static_cast<std::size_t>(v.bytes));
      const auto address = reinterpret_cast<std::uint64_t>(memory);
      std::byte* const bytes =
          DeviceMemory::instance().range_at(address, static_cast<std::size_t>(v.bytes));
      std::memset(bytes, 0, static_cast<std::size_t>(v.bytes));
      std::memcpy(bytes, v.init.data(), v.init.size());
      globals[v.name] = address;
    }
    return *parsed;
  }
};

struct Kernel {
  Module* module = nullptr;
  std::string name;
  std::int64_t allowed_shared = shared_without_asking;
  std::unique_ptr<Program> program;

  const Program& decoded() {
    if (program) return *program;
    const ModuleText& text = module->read();
    for (const KernelText& k : text.kernels) {
      if (k.name != name) continue;
      KernelText with_body = k;
      plant(with_body);
      parse_body(with_body);
      if (setting("TRIREME_PTX_CONTRACT", 0) != 0) contract(with_body);
      program = std::make_unique<Program>(decode(text, with_body, module->globals));
      return *program;
    }
    throw std::runtime_error("the PTX has no kernel " + name);
  }
};

std::unordered_map<const void*, Kernel>& kernels() {
  static auto* const all = new std::unordered_map<const void*, Kernel>;
  return *all;
}

Launch launch_of(const Program& program, dim3 grid, dim3 threads, void** arguments,
                 std::size_t dynamic_shared_bytes) {
  Launch launch;
  launch.program = &program;
  launch.grid = {grid.x, grid.y, grid.z};
  launch.threads = {threads.x, threads.y, threads.z};
  launch.shared_bytes = program.shared_bytes + static_cast<std::int64_t>(dynamic_shared_bytes);
  launch.order = thread_order;
  launch.parameters.resize(static_cast<std::size_t>(program.parameter_bytes));
  for (std::size_t k = 0; k < program.parameter_sizes.size(); ++k)
    std::memcpy(launch.parameters.data() + program.parameter_offsets[k], arguments[k],
                static_cast<std::size_t>(program.parameter_sizes[k]));
  return launch;
}

void check_sizes(const Kernel& kernel, const Launch& launch) {
  const Dims &grid = launch.grid, &threads = launch.threads;
  if (threads.count() == 0 || threads.count() > most_threads || grid.count() == 0 ||
      grid.x > most_blocks_x || grid.y > most_blocks_y || grid.z > most_blocks_y)
    throw Refused{cudaErrorInvalidConfiguration};
  if (threads.count() > static_cast<unsigned>(launch.program->most_threads))
    throw Refused{cudaErrorInvalidConfiguration};
  if (launch.shared_bytes > kernel.allowed_shared) throw Refused{cudaErrorInvalidValue};
}

}  // namespace

bool is_kernel(const void* function) {
  return kernels().contains(function);
}

std::size_t static_shared_bytes(const void* function) {
  return static_cast<std::size_t>(kernels().at(function).decoded().shared_bytes);
}

bool allow_shared_bytes(const void* function, int bytes) {
  if (bytes > most_shared) return false;
  kernels().at(function).allowed_shared = most_shared;
  return true;
}

std::function<void()> prepare_launch(const void* function, dim3 grid, dim3 threads,
                                     void** arguments, std::size_t dynamic_shared_bytes) {
  const auto found = kernels().find(function);
  if (found == kernels().end()) throw Refused{cudaErrorInvalidDeviceFunction};
  Launch launch =
      launch_of(found->second.decoded(), grid, threads, arguments, dynamic_shared_bytes);
  check_sizes(found->second, launch);
  return [launch = std::move(launch)] { run_and_report(launch); };
}

}  // namespace trireme::ptx

using trireme::ptx::kernels;
using trireme::ptx::Module;

extern "C" {

void** __cudaRegisterFatBinary(void* binary) {
  auto* const module = new Module;
  module->text = trireme::ptx::ptx_of(binary);
  return reinterpret_cast<void**>(module);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}

void __cudaRegisterFunction(void** module, const char* function, char*, const char* name, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  auto& kernel = kernels()[function];
  kernel.module = reinterpret_cast<Module*>(module);
  kernel.name = name;
  trireme::ptx::note_kernel(name);
}

// nvcc's stubs call this; our program launches kernels itself and never calls a stub.
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) {
  return cudaErrorInvalidConfiguration;
}
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) {
  return cudaErrorInvalidDeviceFunction;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return cudaErrorInvalidDeviceFunction;
}
}
