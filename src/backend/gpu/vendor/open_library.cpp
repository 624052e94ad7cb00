// open_library.h on CUDA and HIP.
#include "backend/gpu/libraries/open_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "backend/gpu/queue.h"
#include "backend/gpu/vendor/libraries.h"
#include "backend/gpu_workspace.h"
#include "base/error.h"
#if TRIREME_HAS_LT
#include "backend/gpu/vendor/lt.h"
#endif
#if TRIREME_HAS_ROCBLAS
#include "backend/gpu/vendor/rocblas.h"
#endif

namespace trireme::gpu {
namespace {

// The vendor's libraries that the build has found; searched after the system's own places.
#ifndef TRIREME_VENDOR_LIBRARIES
#define TRIREME_VENDOR_LIBRARIES ""
#endif

void* load(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const std::string path = std::string(TRIREME_VENDOR_LIBRARIES) + "/" + name;
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

[[maybe_unused]] void* stream_behind(Queue& queue) {
  return stream_of(queue);
}

bool are_wanted() {
  const char* const text = std::getenv("TRIREME_GPU_LIBRARIES");
  const std::string_view wanted = text ? text : "1";
  if (wanted != "0" && wanted != "1")
    fail_input("TRIREME_GPU_LIBRARIES is '{}': 1 uses the vendor's libraries, 0 does not", wanted);
  return wanted == "1";
}

// Names with the version of the headers first: another one may mean other structures.
#if TRIREME_HAS_LT
std::unique_ptr<ProductLibrary> open_lt() {
#if TRIREME_HIP
  void* const library =
      load({"libhipblaslt.so." + std::to_string(HIPBLASLT_VERSION_MAJOR), "libhipblaslt.so"});
#else
  void* const library = load({"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)});
#endif
  const auto functions = library ? lt::functions_of(library) : std::nullopt;
  if (!functions) return nullptr;
  return lt::make_library(*functions, stream_behind, library_workspace);
}
#endif

#if TRIREME_HAS_ROCBLAS
std::unique_ptr<ProductLibrary> open_rocblas() {
  void* const library = load({"librocblas.so." + std::to_string(ROCBLAS_VERSION_MAJOR),
                              "librocblas.so.0", "librocblas.so"});
  const auto functions = library ? rocblas::functions_of(library) : std::nullopt;
  if (!functions) return nullptr;
  return rocblas::make_library(*functions, stream_behind, library_workspace);
}
#endif

std::unique_ptr<ProductLibrary> open_first() {
  std::unique_ptr<ProductLibrary> library;
#if TRIREME_HAS_LT
  library = open_lt();
#endif
#if TRIREME_HAS_ROCBLAS
  if (!library) library = open_rocblas();
#endif
  return library;
}

#if TRIREME_HIP
constexpr const char* names = "hipBLASLt and rocBLAS";
#else
constexpr const char* names = "cuBLASLt";
#endif
#if TRIREME_HAS_LT || TRIREME_HAS_ROCBLAS
constexpr const char* missing = "cannot be loaded";
#else
constexpr const char* missing = "were not there when the plug-in was built";
#endif

}  // namespace

OpenedLibrary open_library() {
  if (!are_wanted())
    return {nullptr, "TRIREME_GPU_LIBRARIES=0: the own kernel computes matrix products"};
  try {
    if (auto library = open_first()) return {std::move(library), ""};
  } catch (const Error& error) {
    return {nullptr, fmt::format("{}: the own kernel computes matrix products", error.what())};
  }
  return {nullptr, fmt::format("{} {}: the own kernel computes matrix products", names, missing)};
}

}  // namespace trireme::gpu
