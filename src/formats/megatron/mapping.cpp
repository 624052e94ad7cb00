// Everything else is the same on both sides.
#include "formats/megatron/mapping.h"

#include "base/error.h"
#include "config/config.h"
#include "tensors/model_tensors.h"

namespace trireme {
namespace {

// Ours has the biases of the first layer, then of the second one, of each expert in turn.
void map_expert_biases(TensorMapping& mapping, const ModelConfig& m, const NamedTensor& ours,
                       const std::string& experts) {
  const std::int64_t count = m.moe.num_experts, hidden = m.hidden_size;
  const std::int64_t inner = (has_gate(m) ? 2 : 1) * m.moe.ffn_hidden_size;
  const std::size_t all = mapping.add_ours(ours);
  const std::size_t up = mapping.add_theirs({experts + "up.bias", {count * inner}});
  const std::size_t down = mapping.add_theirs({experts + "down.bias", {count * hidden}});
  for (std::int64_t e = 0; e < count; ++e) {
    mapping.link(all, e * (inner + hidden), up, e * inner, inner);
    mapping.link(all, e * (inner + hidden) + inner, down, e * hidden, hidden);
  }
}

// Columns of theirs, which are rows of the transposed matrices.
void map_projections(TensorMapping& mapping, const ModelConfig& m, const std::string& module) {
  const std::int64_t h = m.hidden_size;
  const std::size_t both = mapping.add_theirs({module + "projection.weight", {h, 2 * h}, true});
  mapping.link(mapping.add_ours({module + "embedding_proj.weight", {h, h}, true}), 0, both, 0, h);
  mapping.link(mapping.add_ours({module + "state_proj.weight", {h, h}, true}), 0, both, h, h);
}

}  // namespace

TensorMapping megatron_mapping(const ModelConfig& model) {
  constexpr std::string_view biases = "mlp.experts.bias", first = "embedding_proj.weight",
                             second = "state_proj.weight";
  constexpr std::string_view bias = "bias";
  TensorMapping mapping;
  for (const NamedTensor& tensor : model_tensors(model)) {
    const std::string& name = tensor.name;
    if (name.ends_with(biases)) {
      map_expert_biases(mapping, model, tensor, name.substr(0, name.size() - bias.size()));
    } else if (name.ends_with(first)) {
      map_projections(mapping, model, name.substr(0, name.size() - first.size()));
    } else if (!name.ends_with(second)) {
      mapping.add(tensor, tensor);
    }
  }
  return mapping;
}

}  // namespace trireme
