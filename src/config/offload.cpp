// Checks of [offload].
#include "config/offload.h"

#include <utility>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {

bool leaves_memory(const Config& config, OffloadPlace where) {
  return where == OffloadPlace::file ||
         (where == OffloadPlace::host && config.run.device != DeviceKind::cpu);
}

namespace {

void check_parameters(const Config& config) {
  const OffloadConfig& offload = config.offload;
  const Precision precision = config.run.precision;
  if (!leaves_memory(config, offload.parameters)) return;
  if (config.parallel.zero != 3) {
    fail_input(
        "offload.parameters = {:?} offloads the parameter shards of parallel.zero = 3, but "
        "parallel.zero is {}: use 3, or remove offload.parameters",
        offload.parameters, config.parallel.zero);
  }
  if ((precision == Precision::fp32 || precision == Precision::fp64) &&
      offload.optimizer != offload.parameters) {
    fail_input(
        "offload.parameters = {0:?} saves no memory with run.precision = {1:?}, where the "
        "optimizer updates the parameters themselves: set offload.optimizer = {0:?} too",
        offload.parameters, precision);
  }
  if (offload.parameters == OffloadPlace::file && offload.path.empty()) {
    fail_input(
        "offload.parameters = \"file\" requires offload.path, a folder on a local disk; `trireme "
        "plan` prints how much space it needs");
  }
}

void check_device(const Config& config) {
  if (config.run.device == DeviceKind::cpu) return;
  for (const auto& [key, where] : {std::pair{"optimizer", config.offload.optimizer},
                                   {"parameters", config.offload.parameters},
                                   {"activations", config.offload.activations}}) {
    if (where != OffloadPlace::file) continue;
    fail_input("offload.{} = \"file\" requires run.device = \"cpu\": on GPUs use \"host\"", key);
  }
}

}  // namespace

void check_offload(const Config& config) {
  const OffloadConfig& offload = config.offload;
  check_device(config);
  if (offload.activation_layers > 0 && offload.activations == OffloadPlace::none) {
    fail_input(
        "offload.activation_layers = {} has no effect with offload.activations = \"none\": set "
        "offload.activations to {}, or remove activation_layers",
        offload.activation_layers, config.run.device == DeviceKind::cpu ? "\"file\"" : "\"host\"");
  }
  if (offload.activation_layers > config.model.num_layers) {
    fail_input("offload.activation_layers = {} exceeds the {} of the model; 0 means all of them",
               offload.activation_layers, counted(config.model.num_layers, "layer"));
  }
  if (leaves_memory(config, offload.activations) && config.parallel.distribute_saved_activations) {
    fail_input(
        "offload.activations = {:?} and parallel.distribute_saved_activations both move the inputs "
        "of layers out of memory: keep one of them",
        offload.activations);
  }
  if (offload.activations == OffloadPlace::file && offload.path.empty()) {
    fail_input(
        "offload.activations = \"file\" requires offload.path, a folder on a local disk; `trireme "
        "plan` prints how much space it needs");
  }
  check_parameters(config);
  if (offload.optimizer != OffloadPlace::file) return;
  if (offload.path.empty()) {
    fail_input(
        "offload.optimizer = \"file\" requires offload.path, a folder on a local disk with space "
        "for the states: 12 bytes per parameter with run.precision = \"bf16\" and adamw");
  }
  if (config.checkpoint.async) {
    fail_input(
        "checkpoint.async = true copies the states to memory, but offload.optimizer = \"file\" "
        "keeps them out of it: use checkpoint.async = false");
  }
}

}  // namespace trireme
