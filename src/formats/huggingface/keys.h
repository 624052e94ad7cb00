// The keys of a config.json that change nothing of what a model computes.
#pragma once

#include <span>

#include "formats/huggingface/config.h"
#include "formats/huggingface/reader.h"

namespace trireme {

// Those of models of every kind, and those that one kind has besides.
std::span<const HuggingFaceInertKey> huggingface_common_keys();
std::span<const HuggingFaceInertKey> huggingface_keys_of(HuggingFaceKind kind);

}  // namespace trireme
