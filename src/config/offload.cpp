// What is kept in files instead of in memory.
#include "config/offload.h"

#include "base/error.h"

namespace trireme {

namespace {

void check_parameters(const Config& config) {
  const OffloadConfig& offload = config.offload;
  const std::string& precision = config.run.precision;
  if (offload.parameters != "file") return;
  if (config.parallel.zero != 3) {
    fail_input(
        "offload.parameters = \"file\" takes the parts of parameters out of memory that "
        "parallel.zero = 3 gives each rank, and parallel.zero is {}: use 3, or leave "
        "offload.parameters out",
        config.parallel.zero);
  }
  if ((precision == "fp32" || precision == "fp64") && offload.optimizer != "file") {
    fail_input(
        "offload.parameters = \"file\" saves no memory with run.precision = {:?}, where the "
        "optimizer updates the parameters themselves: set offload.optimizer = \"file\" too",
        precision);
  }
  if (offload.path.empty()) {
    fail_input(
        "offload.parameters = \"file\" needs offload.path: a folder on a local disk; `trireme "
        "plan` "
        "prints how much space it takes");
  }
}

}  // namespace

void check_offload(const Config& config) {
  const OffloadConfig& offload = config.offload;
  if (offload.activation_layers > 0 && offload.activations == "none") {
    fail_input(
        "offload.activation_layers = {} needs offload.activations, which is \"none\": set it to "
        "\"file\", or leave activation_layers out",
        offload.activation_layers);
  }
  if (offload.activation_layers > config.model.num_layers) {
    fail_input("offload.activation_layers = {}: the model has {} layers; 0 is all of them",
               offload.activation_layers, config.model.num_layers);
  }
  if (offload.activations == "file" && config.parallel.distribute_saved_activations) {
    fail_input(
        "offload.activations = \"file\" and parallel.distribute_saved_activations both take the "
        "inputs of layers out of memory: keep one of them");
  }
  if (offload.activations == "file" && offload.path.empty()) {
    fail_input(
        "offload.activations = \"file\" needs offload.path: a folder on a local disk; `trireme "
        "plan` prints how much space it takes");
  }
  check_parameters(config);
  if (offload.optimizer != "file") return;
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
