// The part of `trireme doctor` on GPUs.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "backend/gpu_workspace.h"
#include "backend/machine_report.h"
#include "backend/plugin_loader.h"
#include "base/counted.h"
#include "base/error.h"
#include "cli/doctor.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace trireme::cli {
namespace {

// A link below this share of the median of its kind is a fault.
constexpr double slow_share = 0.85;

Finding one_gpu(std::size_t index, const GpuReport& gpu) {
  Finding finding{fmt::format("GPU {}", index),
                  fmt::format("{} ({}), {} of {} free", gpu.name, gpu.architecture,
                              bytes_to_text(gpu.free), bytes_to_text(gpu.memory))};
  if (!gpu.bus.empty()) finding.text += fmt::format(", {}", gpu.bus);
  if (gpu.numa_node >= 0) finding.text += fmt::format(", NUMA node {}", gpu.numa_node);
  if (!gpu.slowed_by.empty()) {
    finding.state = State::fault;
    finding.advice =
        fmt::format("it is slowed down by {}: find out why, or leave this node out", gpu.slowed_by);
  } else if (gpu.free < gpu.memory / 10 * 9) {
    finding.state = State::note;
    finding.advice = "another process uses its memory: a plan that fits may not";
  } else if (gpu.without_error_correction) {
    finding.state = State::note;
    finding.advice = "its memory has no error correction: a flipped bit goes unnoticed";
  }
  return finding;
}

double median_of(const std::vector<LinkReport>& links, bool direct) {
  std::vector<double> speeds;
  for (const LinkReport& link : links)
    if (link.direct == direct) speeds.push_back(link.gigabytes_per_second);
  if (speeds.empty()) return 0;
  std::nth_element(speeds.begin(), speeds.begin() + speeds.size() / 2, speeds.end());
  return speeds[speeds.size() / 2];
}

// Each link against the median of those of its kind; nothing to say of one GPU.
std::vector<Finding> links_between(const std::vector<LinkReport>& links) {
  if (links.empty()) return {};
  Finding finding{"GPU links", ""};
  std::vector<std::string> slow;
  for (const bool direct : {true, false}) {
    const double median = median_of(links, direct);
    if (median == 0) continue;
    finding.text += fmt::format("{}{:.0f} GB/s {}", finding.text.empty() ? "" : ", ", median,
                                direct ? "direct" : "by way of the host");
    for (const LinkReport& link : links) {
      if (link.direct == direct && link.gigabytes_per_second < slow_share * median)
        slow.push_back(
            fmt::format("{} to {}: {:.1f} GB/s", link.from, link.to, link.gigabytes_per_second));
    }
  }
  if (!slow.empty()) {
    finding.state = State::fault;
    finding.advice = fmt::format("these are slow: {}; leave this node out", fmt::join(slow, ", "));
  }
  return {finding};
}

// Sines: no two elements are equal, and none is rounded away by bf16's eight bits alone.
template <class T>
std::vector<T> waves(std::int64_t count, double phase) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(static_cast<float>(std::sin(phase * static_cast<double>(i + 1))));
  return values;
}

// Device memory with these values.
template <class T>
class OnDevice {
 public:
  OnDevice(Device& device, const std::vector<T>& values)
      : device_(device), bytes_(static_cast<std::int64_t>(values.size() * sizeof(T))) {
    memory_ = device.allocate(bytes_);
    if (!memory_) fail("the GPU has no memory left for a product of a few kilobytes");
    device.write(memory_, bytes_, [&](std::byte* host) {
      std::copy_n(reinterpret_cast<const std::byte*>(values.data()), bytes_, host);
    });
  }
  ~OnDevice() { device_.release(memory_, bytes_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void* data() const { return memory_; }
  std::vector<T> values() const {
    std::vector<T> values(static_cast<std::size_t>(bytes_) / sizeof(T));
    device_.read(memory_, bytes_, [&](const std::byte* host) {
      std::copy_n(host, bytes_, reinterpret_cast<std::byte*>(values.data()));
    });
    return values;
  }

 private:
  Device& device_;
  std::int64_t bytes_;
  std::byte* memory_;
};

// The largest difference of a product from the same in double, as a share of the largest value.
template <class T>
double product_error(Device& device, DType dtype) {
  const LinearShape shape{48, 160, 96};
  const std::vector<T> x = waves<T>(shape.rows * shape.in, 0.7),
                       weight = waves<T>(shape.out * shape.in, 1.3);
  const OnDevice<T> there_x(device, x), there_weight(device, weight),
      there_y(device, std::vector<T>(static_cast<std::size_t>(shape.rows * shape.out)));
  const OnDevice<char> workspace(
      device,
      std::vector<char>(static_cast<std::size_t>(
          1 + gpu::linear_workspace(device.target().device, dtype, Product::forward, shape))));
  device.linear(dtype, Product::forward, shape)
      ->run(device.queue(), there_y.data(), there_x.data(), there_weight.data(), nullptr, false,
            workspace.data());
  const std::vector<T> y = there_y.values();
  double error = 0, largest = 0;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t o = 0; o < shape.out; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < shape.in; ++i) {
        sum += static_cast<double>(static_cast<float>(x[r * shape.in + i])) *
               static_cast<double>(static_cast<float>(weight[o * shape.in + i]));
      }
      const double found = static_cast<float>(y[r * shape.out + o]);
      error = std::isfinite(found) ? std::max(error, std::abs(found - sum)) : INFINITY;
      largest = std::max(largest, std::abs(sum));
    }
  }
  return error / largest;
}

Finding products_of(const std::string& name) {
  Device& device = device_of(name);
  Finding finding{"GPU products", ""};
  const auto add = [&](const char* type, double error, double limit) {
    const bool right = error < limit;
    finding.text +=
        fmt::format("{}{} {}", finding.text.empty() ? "" : ", ", type, right ? "right" : "WRONG");
    if (right) return;
    finding.state = State::fault;
    finding.advice =
        "the GPU or a library of its vendor gives wrong results: do not train on this machine";
  };
  add("fp32", product_error<float>(device, DType::f32), 1e-5);
  add("bf16", product_error<bf16>(device, DType::bf16), 1e-2);
  add("fp16", product_error<f16>(device, DType::f16), 1e-2);
  for (const DeviceNote& note : device.notes()) {
    if (!note.is_fault) continue;
    finding.state = State::fault;
    finding.advice = note.text;
  }
  return finding;
}

Finding library(const LibraryReport& library) {
  if (!library.version.empty()) return {library.what, library.version};
  return {library.what, "the vendor's library cannot be loaded", State::note,
          fmt::format("{} is used instead", library.instead)};
}

void add_machine(std::vector<Finding>& findings, const std::string& device, bool asked_for) {
  const MachineReport report = plugin_report(device);
  findings.push_back({fmt::format("GPU ({})", device),
                      fmt::format("{}, {}", counted(report.gpus.size(), "GPU"), report.driver)});
  if (!report.problem.empty()) {
    findings.back().state = asked_for ? State::fault : State::note;
    findings.back().advice = report.problem;
    return;
  }
  for (std::size_t i = 0; i < report.gpus.size(); ++i)
    findings.push_back(one_gpu(i, report.gpus[i]));
  for (Finding& finding : links_between(report.links)) findings.push_back(std::move(finding));
  for (const LibraryReport& each : report.libraries) findings.push_back(library(each));
  findings.push_back(products_of(device));
}

std::vector<std::string> variables_of_gpus() {
  std::vector<std::string> seen;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    for (const char* prefix : {"CUDA_", "HIP_", "ROCR_", "HSA_", "NCCL_", "RCCL_", "GLOO_"}) {
      if (text.starts_with(prefix)) seen.push_back(text);
    }
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

}  // namespace

std::vector<Finding> gpu_findings(const std::string& device) {
  std::vector<Finding> findings;
  if (!device.empty()) {
    if (!has_plugin(device)) device_of(device);  // which says what is missing
    add_machine(findings, device, true);
  } else {
    for (const char* vendor : {"cuda", "hip"})
      if (has_plugin(vendor)) add_machine(findings, vendor, false);
  }
  const std::vector<std::string> variables = variables_of_gpus();
  if (findings.empty()) {
    findings.push_back({"GPU", "this build trains on the CPU only (docs/gpu.md)"});
    if (!variables.empty()) {
      findings.back().state = State::note;
      findings.back().advice =
          fmt::format("these variables have no effect: {}", fmt::join(variables, " "));
    }
  } else if (!variables.empty()) {
    findings.push_back({"GPU variables", fmt::format("{}", fmt::join(variables, " "))});
  }
  return findings;
}

}  // namespace trireme::cli
