// Reads modules of a model that torchtitan printed: linear layers, norms and their sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "importers/settings/reader.h"

namespace trireme::settings {

// A group of equal layers, which is read once.
struct LayerGroup {
  std::string key;  // the first of them: "model_spec.model.layers.0"
  std::vector<std::int64_t> layers;
};

// Marks the parts of a module that change no result: how its weights start (see
// `note_initial_weights`), and how they are sharded.
void read_module(Reader& reader, const std::string& key);

// Whether a module is there; null says that it is not.
bool has_module(Reader& reader, const std::string& key);

// A size that must be there.
std::int64_t module_size(Reader& reader, const std::string& key);

// Refuses a size other than the one that follows from the rest of the model.
void expect_size(Reader& reader, const std::string& key, std::int64_t expected);

// Checks the sizes of a linear layer; returns whether it has a bias.
bool read_linear(Reader& reader, const std::string& key, std::int64_t in, std::int64_t out);

// An RMSNorm. All norms of a model share an epsilon, except those of `eps_setting`.
void read_norm(Reader& reader, const std::string& key, std::int64_t width,
               const char* eps_setting = "model.norm_eps");

// Attention of any kind. Returns the window, or 0.
std::int64_t read_torchtitan_attention(Reader& reader, const std::string& key, std::int64_t dim);

// Layers that all have experts, or none: a gated MLP, or a router with experts.
void read_torchtitan_mlp(Reader& reader, const std::string& key, std::int64_t dim,
                         const char* setting);
void read_torchtitan_experts(Reader& reader, const std::string& key, std::int64_t dim);

// Says how the initial weights differ from torchtitan's.
void note_initial_weights(Reader& reader, std::int64_t layers);

// Whether the model is gpt-oss, whose attention and experts are their own.
bool is_gpt_oss(const Reader& reader);

inline const std::string printed_model = "model_spec.model";

}  // namespace trireme::settings
