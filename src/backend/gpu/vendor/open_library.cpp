// open_library.h on CUDA and HIP.
#include "backend/gpu/libraries/open_library.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "backend/gpu/libraries/either_library.h"
#include "backend/gpu/libraries/search.h"
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

// Adds the path of the library found, or else the reason to the problems.
[[maybe_unused]] void* load(const std::vector<std::string>& names, OpenedLibrary& opened) {
  const FoundLibrary found = find_library(names, search_places(TRIREME_VENDOR_LIBRARIES));
  std::string& text = found.handle ? opened.path : opened.note;
  text += (text.empty() ? "" : ", ") + (found.handle ? found.path : found.problem);
  return found.handle;
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

// Prefers the version of the headers: another version may have different structures.
#if TRIREME_HAS_LT
std::unique_ptr<ProductLibrary> open_lt(OpenedLibrary& opened) {
#if TRIREME_HIP
  void* const library = load(
      {"libhipblaslt.so." + std::to_string(HIPBLASLT_VERSION_MAJOR), "libhipblaslt.so"}, opened);
#else
  void* const library = load({"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)}, opened);
#endif
  const auto functions = library ? lt::functions_of(library) : std::nullopt;
  if (!functions) return nullptr;
  return lt::make_library(*functions, stream_behind, library_workspace);
}
#endif

#if TRIREME_HAS_ROCBLAS
std::unique_ptr<ProductLibrary> open_rocblas(OpenedLibrary& opened) {
  void* const library = load({"librocblas.so." + std::to_string(ROCBLAS_VERSION_MAJOR),
                              "librocblas.so.0", "librocblas.so"},
                             opened);
  const auto functions = library ? rocblas::functions_of(library) : std::nullopt;
  if (!functions) return nullptr;
  return rocblas::make_library(*functions, stream_behind, library_workspace);
}
#endif

// A library that fails to initialize is treated as missing.
template <class Open>
[[maybe_unused]] std::unique_ptr<ProductLibrary> started(const Open& open, OpenedLibrary& opened) {
  try {
    return open(opened);
  } catch (const Error& error) {
    opened.note += (opened.note.empty() ? "" : ", ") + std::string(error.what());
    return nullptr;
  }
}

OpenedLibrary open_all() {
  OpenedLibrary opened;
#if TRIREME_HAS_LT
  opened.library = started(open_lt, opened);
#endif
#if TRIREME_HAS_ROCBLAS
  opened.library = either_library(std::move(opened.library), started(open_rocblas, opened));
#endif
#if !TRIREME_HAS_LT && !TRIREME_HAS_ROCBLAS
  opened.note =
      "the headers of the vendor's libraries were not available when this plug-in was built";
#endif
  return opened;
}

}  // namespace

OpenedLibrary open_library() {
  if (!are_wanted())
    return {nullptr, "TRIREME_GPU_LIBRARIES=0: the own kernel computes matrix products"};
  OpenedLibrary opened = open_all();
  opened.is_missing = !opened.library;
  if (opened.library)
    opened.note.clear();
  else
    opened.note += ": the own kernel computes matrix products";
  return opened;
}

}  // namespace trireme::gpu
