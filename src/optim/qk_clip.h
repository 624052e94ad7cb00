// QK-clip (Kimi Team 2025, arXiv:2507.20534): after a step in which an attention logit of a head
// exceeded a threshold, the head's query and key projections are scaled down. As in Megatron-Core,
// heads that share a key are scaled together, biases are not scaled, and neither is the key part of
// latent attention that all heads share.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "graph/graph.h"

namespace trireme {

class QkClip {
 public:
  // `largest`: largest logit of each head of the first layers, [layers, num_heads].
  QkClip(const OptimizerConfig& optimizer, const ModelConfig& model,
         const std::vector<double>& largest);

  // Largest logit of all heads.
  double largest() const { return largest_; }
  // Whether any head exceeded the threshold.
  bool scales() const { return scales_; }
  // What row `row` of the full parameter, in layer `layer`, is multiplied by; 1 in other layers.
  double factor(const ParameterSpec& spec, std::int64_t layer, std::int64_t row) const;

 private:
  double alpha_, largest_ = 0;
  bool scales_ = false;
  std::int64_t groups_;          // of heads that share a key, in a layer
  std::vector<double> shrinks_;  // by layer and group: threshold / largest logit, at most 1
};

}  // namespace trireme
