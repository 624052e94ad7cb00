// Adam states stored alongside the weights of checkpoints.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "tensors/mapping.h"

namespace trireme {

inline constexpr int adam_moments = 2;
// Names in PyTorch's Adam and derived optimizers.
inline constexpr std::array<const char*, adam_moments> torch_moment_keys{"exp_avg", "exp_avg_sq"};

// Name of a moment in our checkpoints.
std::string moment_name(const std::string& parameter, int which);

// Whether the optimizer trains this tensor of ours (not the expert balancing biases).
bool has_moments(const std::string& ours);

// Whether any of our tensors mapped from this tensor of theirs is trained.
bool is_trained(const TensorMapping& mapping, std::size_t theirs);

// Adds the moments of trained tensors to a mapping, split and ordered like their weights. `theirs`
// returns the other program's name of a moment.
using MomentNames = std::function<std::string(const std::string& tensor, int which)>;
void add_moments(TensorMapping& mapping, const MomentNames& theirs);

}  // namespace trireme
