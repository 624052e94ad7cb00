// What params.json of Meta's Llama folders says of a model, what it leaves open, and its writer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"

namespace trireme {

inline constexpr const char* llama_params_file = "params.json";
// "consolidated.01.pth": the file of a rank of tensor parallelism.
std::string llama_file_name(std::size_t rank);

// The inner width that Meta's programs compute.
std::int64_t llama_inner_width(std::int64_t hidden_size, std::int64_t multiple_of,
                               std::optional<double> multiplier);

// What is assumed where params.json does not say it, from the published models.
std::int64_t likely_llama_positions(bool scaled, double rope_base);
double likely_llama_scaling(bool tied);

// Refused (exit code 2): see require_llama_of_meta.
std::string llama_params(const ModelConfig& model);

}  // namespace trireme
