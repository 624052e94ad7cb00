// Checks of [offload].
#include "config/offload.h"

#include <utility>

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
        "offload.parameters = {:?} takes the parts of parameters out of memory that "
        "parallel.zero = 3 gives each rank, and parallel.zero is {}: use 3, or leave "
        "offload.parameters out",
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
        "offload.parameters = \"file\" needs offload.path: a folder on a local disk; `trireme "
        "plan` "
        "prints how much space it takes");
  }
}

void check_device(const Config& config) {
  if (config.run.device == DeviceKind::cpu) return;
  for (const auto& [key, where] : {std::pair{"optimizer", config.offload.optimizer},
                                   {"parameters", config.offload.parameters},
                                   {"activations", config.offload.activations}}) {
    if (where != OffloadPlace::file) continue;
    fail_input(
        "offload.{} = \"file\" needs run.device = \"cpu\": on GPUs use \"host\", the memory of the "
        "machine",
        key);
  }
}

}  // namespace

void check_offload(const Config& config) {
  const OffloadConfig& offload = config.offload;
  check_device(config);
  if (offload.activation_layers > 0 && offload.activations == OffloadPlace::none) {
    fail_input(
        "offload.activation_layers = {} needs offload.activations, which is \"none\": set it to "
        "{}, or leave activation_layers out",
        offload.activation_layers, config.run.device == DeviceKind::cpu ? "\"file\"" : "\"host\"");
  }
  if (offload.activation_layers > config.model.num_layers) {
    fail_input("offload.activation_layers = {}: the model has {} layers; 0 is all of them",
               offload.activation_layers, config.model.num_layers);
  }
  if (leaves_memory(config, offload.activations) && config.parallel.distribute_saved_activations) {
    fail_input(
        "offload.activations = {:?} and parallel.distribute_saved_activations both take the "
        "inputs of layers out of memory: keep one of them",
        offload.activations);
  }
  if (offload.activations == OffloadPlace::file && offload.path.empty()) {
    fail_input(
        "offload.activations = \"file\" needs offload.path: a folder on a local disk; `trireme "
        "plan` prints how much space it takes");
  }
  check_parameters(config);
  if (offload.optimizer != OffloadPlace::file) return;
  if (offload.path.empty()) {
    fail_input(
        "offload.optimizer = \"file\" needs offload.path: a folder on a local disk with space for "
        "the states, 12 bytes per parameter with run.precision = \"bf16\" and adamw");
  }
  if (config.checkpoint.async) {
    fail_input(
        "checkpoint.async = true copies into memory the states that offload.optimizer = \"file\" "
        "keeps out of it: use checkpoint.async = false");
  }
}

}  // namespace trireme
