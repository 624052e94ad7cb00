// Whether a file of another program says the same model as ours. A writer needs no list of what its
// format cannot express: what it wrote is read again and compared.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

struct ModelDifference {
  std::string key, value;  // "model.qk_norm", "true": of the model to write
};

// The keys of [model] and [moe] in which two resolved models differ, in the order of the
// configuration. Keys that have no effect next to the values of others do not count, nor does how a
// value is written: 0 for a default, a list of all layers for none.
std::vector<ModelDifference> differences(const ModelConfig& wanted, const ModelConfig& said);
// The same without keys that only training reads: what differs in results.
std::vector<ModelDifference> differences_of_results(const ModelConfig& wanted,
                                                    const ModelConfig& said);

}  // namespace trireme
