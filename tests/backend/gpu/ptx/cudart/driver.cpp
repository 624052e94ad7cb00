// The state of the driver and its error texts.
#include "backend/gpu/ptx/cudart/driver.h"

#include <cstdlib>

namespace trireme::ptx {
namespace {

cudaError_t broken = cudaSuccess;
std::string broken_text;

}  // namespace

std::recursive_mutex driver_mutex;

std::int64_t setting(const char* name, std::int64_t otherwise) {
  const char* const value = std::getenv(name);
  return value ? std::atoll(value) : otherwise;
}

std::uint64_t thread_order = static_cast<std::uint64_t>(setting("TRIREME_PTX_ORDER", 0));

cudaError_t driver_state() {
  if (broken != cudaSuccess) return broken;
  const std::int64_t driver = setting("TRIREME_PTX_DRIVER", 13000);
  if (driver < CUDART_VERSION / 1000 * 1000) return cudaErrorInsufficientDriver;
  return setting("TRIREME_PTX_DEVICES", 1) > 0 ? cudaSuccess : cudaErrorNoDevice;
}

void break_device(cudaError_t code, const std::string& text) {
  if (broken != cudaSuccess) return;
  broken = code;
  broken_text = std::string(error_text(code)) + (text.empty() ? "" : ": ") + text;
}

// Returns CUDA's wording.
const char* error_text(cudaError_t code) {
  if (code == broken && !broken_text.empty()) return broken_text.c_str();
  switch (code) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorECCUncorrectable:
      return "uncorrectable ECC error encountered";
    default:
      return "an error that the substitute has no words for";
  }
}

}  // namespace trireme::ptx
