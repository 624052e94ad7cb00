// Adam's states of each parameter, next to the weights of checkpoints.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "tensors/mapping.h"

namespace trireme {

inline constexpr int adam_moments = 2;
// As PyTorch's Adam calls them, and whatever is made after it.
inline constexpr std::array<const char*, adam_moments> torch_moment_keys{"exp_avg", "exp_avg_sq"};

// The name of a moment in our checkpoints.
std::string moment_name(const std::string& parameter, int which);

// Whether a tensor of ours is one that the optimizer trains: not the biases that balance experts.
bool has_moments(const std::string& ours);

// Whether any of ours that is made of a tensor of theirs is trained.
bool is_trained(const TensorMapping& mapping, std::size_t theirs);

// Adds the moments of all that have some to a mapping: they are cut and ordered as their weights.
// `theirs` names them at the other program.
using MomentNames = std::function<std::string(const std::string& tensor, int which)>;
void add_moments(TensorMapping& mapping, const MomentNames& theirs);

}  // namespace trireme
