// Maps optimizer states by copying the links of their weights.
#include "tensors/optimizer_states.h"

#include <algorithm>
#include <vector>

namespace trireme {

std::string moment_name(const std::string& parameter, int which) {
  return (which == 0 ? "optimizer.first_moment." : "optimizer.second_moment.") + parameter;
}

bool has_moments(const std::string& ours) {
  return !ours.ends_with(".mlp.router.bias");
}

bool is_trained(const TensorMapping& mapping, std::size_t theirs) {
  return std::ranges::any_of(mapping.links, [&](const RowLink& link) {
    return link.theirs == theirs && has_moments(mapping.ours[link.ours].name);
  });
}

void add_moments(TensorMapping& mapping, const MomentNames& theirs) {
  const TensorMapping weights = mapping;
  std::vector<bool> is_their_trained(weights.theirs.size());
  for (const RowLink& link : weights.links)
    is_their_trained[link.theirs] = has_moments(weights.ours[link.ours].name);
  for (int which = 0; which < adam_moments; ++which) {
    std::vector<std::size_t> our_place(weights.ours.size()), their_place(weights.theirs.size());
    for (std::size_t i = 0; i < weights.ours.size(); ++i) {
      NamedTensor tensor = weights.ours[i];
      if (!has_moments(tensor.name)) continue;
      tensor.name = moment_name(tensor.name, which);
      our_place[i] = mapping.add_ours(tensor);
    }
    for (std::size_t i = 0; i < weights.theirs.size(); ++i) {
      NamedTensor tensor = weights.theirs[i];
      if (!is_their_trained[i]) continue;
      tensor.name = theirs(tensor.name, which);
      their_place[i] = mapping.add_theirs(tensor);
    }
    for (const RowLink& link : weights.links) {
      if (!has_moments(weights.ours[link.ours].name)) continue;
      mapping.link(our_place[link.ours], link.ours_row, their_place[link.theirs], link.theirs_row,
                   link.rows);
    }
  }
}

}  // namespace trireme
