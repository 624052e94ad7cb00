// GPU checks of `trireme doctor`.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "backend/gpu_workspace.h"
#include "backend/machine_report.h"
#include "backend/plugin_loader.h"
#include "base/counted.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/test_product.h"
#include "operations/slingshot.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace trireme::cli {
namespace {

// A link with less than this share of its kind's median is faulty.
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
        fmt::format("it is throttled by {}: find the cause, or exclude this node", gpu.slowed_by);
  } else if (gpu.free < gpu.memory / 10 * 9) {
    finding.state = State::note;
    finding.advice = "another process uses its memory: a plan that fits may run out of memory";
  } else if (gpu.without_error_correction) {
    finding.state = State::note;
    finding.advice = "its memory has no ECC: a flipped bit goes unnoticed";
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

// Compares each link with the median of its kind; empty for a single GPU.
std::vector<Finding> links_between(const std::vector<LinkReport>& links) {
  if (links.empty()) return {};
  Finding finding{"GPU links", ""};
  std::vector<std::string> slow;
  for (const bool direct : {true, false}) {
    const double median = median_of(links, direct);
    if (median == 0) continue;
    finding.text += fmt::format("{}{:.0f} GB/s {}", finding.text.empty() ? "" : ", ", median,
                                direct ? "direct" : "through host memory");
    for (const LinkReport& link : links) {
      if (link.direct == direct && link.gigabytes_per_second < slow_share * median)
        slow.push_back(
            fmt::format("{} to {}: {:.1f} GB/s", link.from, link.to, link.gigabytes_per_second));
    }
  }
  if (!slow.empty()) {
    finding.state = State::fault;
    finding.advice = fmt::format("these are slow: {}; exclude this node", fmt::join(slow, ", "));
  }
  return {finding};
}

template <class T>
MemoryBlock on_device(Device& device, const std::vector<T>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  MemoryBlock block(device, bytes, "a test product");
  device.write(block.data(), bytes, [&](std::byte* host) {
    std::copy_n(reinterpret_cast<const std::byte*>(values.data()), bytes, host);
  });
  return block;
}

template <class T>
double product_error(Device& device, DType dtype) {
  TestProduct<T> product;
  const MemoryBlock x = on_device(device, product.x), weight = on_device(device, product.weight),
                    y = on_device(device, product.y);
  const MemoryBlock workspace(
      device,
      1 + gpu::linear_workspace(device.target().device, dtype, Product::forward, product.shape),
      "a test product");
  device.linear(dtype, Product::forward, product.shape)
      ->run(device.queue(), y.data(), x.data(), weight.data(), nullptr, false, workspace.data());
  device.read(y.data(), y.bytes(), [&](const std::byte* host) {
    std::copy_n(host, y.bytes(), reinterpret_cast<std::byte*>(product.y.data()));
  });
  return product.error();
}

Finding products_of(DeviceKind kind) {
  Device& device = device_of(kind);
  Finding finding{"GPU products", ""};
  const auto add = [&](const char* type, double error, double limit) {
    const bool right = error < limit;
    finding.text +=
        fmt::format("{}{} {}", finding.text.empty() ? "" : ", ", type, right ? "right" : "WRONG");
    if (right) return;
    finding.state = State::fault;
    finding.advice =
        "the GPU or a vendor library computes wrong results: do not train on this machine";
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
  const std::string what = "GPU " + library.what;
  if (!library.version.empty()) {
    return {what, library.path.empty() ? library.version
                                       : fmt::format("{} in {}", library.version, library.path)};
  }
  return {what, library.problem.empty() ? "the vendor's library cannot be loaded" : library.problem,
          library.is_fault ? State::fault : State::note,
          fmt::format("{} is used instead{}", library.instead,
                      library.is_fault ? ", which is several times slower" : "")};
}

void add_machine(std::vector<Finding>& findings, DeviceKind device, bool asked_for) {
  const MachineReport report = plugin_report(name_of(device));
  findings.push_back({fmt::format("GPU ({})", name_of(device)),
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

// Jobs of several nodes would hang or be slow on Slingshot without its plug-in and variables; on
// one node they do not matter.
std::vector<Finding> slingshot() {
  const SlingshotReport report = check_slingshot(
      "/sys/class/net", [](const char* name) { return std::getenv(name); },
      [](const std::string& file) {
        void* const library = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
        if (library) dlclose(library);
        return library != nullptr;
      });
  if (report.cards.empty()) return {};
  Finding finding{"GPU network", fmt::format("Slingshot ({})", fmt::join(report.cards, ", "))};
  std::vector<std::string> advice;
  if (!report.plugins.empty())
    advice.push_back(fmt::format(
        "jobs of several nodes will use slow TCP, because no network plug-in (aws-ofi-nccl) is found: "
        "expected {} on LD_LIBRARY_PATH",
        fmt::join(report.plugins, " or ")));
  if (!report.missing.empty())
    advice.push_back(
        fmt::format("jobs of several nodes need {}, which the scripts of `trireme slurm` set",
                    fmt::join(report.missing, " ")));
  if (!report.other.empty())
    advice.push_back(fmt::format("the scripts of `trireme slurm` have other values than {}",
                                 fmt::join(report.other, ", ")));
  finding.advice = fmt::format("{}", fmt::join(advice, "; "));
  if (!advice.empty()) finding.state = State::note;
  return {finding};
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

std::vector<Finding> gpu_findings(std::optional<DeviceKind> device) {
  std::vector<Finding> findings;
  if (device) {
    if (!has_plugin(name_of(*device))) device_of(*device);  // the error names what is missing
    add_machine(findings, *device, true);
  } else {
    for (const DeviceKind vendor : {DeviceKind::cuda, DeviceKind::hip})
      if (has_plugin(name_of(vendor))) add_machine(findings, vendor, false);
  }
  if (!findings.empty())
    for (Finding& finding : slingshot()) findings.push_back(std::move(finding));
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
