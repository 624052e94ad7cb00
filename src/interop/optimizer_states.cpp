// Copies of the links of a mapping.
#include "interop/optimizer_states.h"

namespace trireme {

std::string moment_name(const std::string& parameter, int which) {
  return (which == 0 ? "optimizer.first_moment." : "optimizer.second_moment.") + parameter;
}

void add_moments(TensorMapping& mapping, const MomentNames& theirs) {
  const TensorMapping weights = mapping;
  for (int which = 0; which < adam_moments; ++which) {
    const std::size_t first_ours = mapping.ours.size(), first_theirs = mapping.theirs.size();
    for (NamedTensor tensor : weights.ours) {
      tensor.name = moment_name(tensor.name, which);
      mapping.add_ours(tensor);
    }
    for (NamedTensor tensor : weights.theirs) {
      tensor.name = theirs(tensor.name, which);
      mapping.add_theirs(tensor);
    }
    for (const RowLink& link : weights.links) {
      mapping.link(first_ours + link.ours, link.ours_row, first_theirs + link.theirs,
                   link.theirs_row, link.rows);
    }
  }
}

}  // namespace trireme
