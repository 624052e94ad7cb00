// Reads a model from params.json of Meta's Llama format, infers missing settings, and writes
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"
#include "formats/huggingface/reader.h"

namespace trireme {

inline constexpr const char* llama_params_file = "params.json";
// File of a tensor-parallel rank: "consolidated.01.pth".
std::string llama_file_name(std::size_t rank);

// FFN width as computed by Meta's programs.
std::int64_t llama_inner_width(std::int64_t hidden_size, std::int64_t multiple_of,
                               std::optional<double> multiplier);

// Values assumed if missing in params.json, based on the published models.
std::int64_t likely_llama_positions(bool scaled, double rope_base);
double likely_llama_scaling(bool tied);

// Model properties derived from the tensors.
class LlamaTensors {
 public:
  virtual ~LlamaTensors() = default;
  // Refused (exit code 2): a different total number of query rows in the files.
  virtual void check_queries(std::int64_t rows) const = 0;
  virtual std::int64_t inner_width() const = 0;
  virtual std::int64_t words(std::int64_t hidden_size) const = 0;
  virtual bool is_tied() const = 0;  // the head equals the embedding
};

// The resolved model of a params.json; `assumed` receives what was assumed. Refused (exit code 2):
// unknown keys, and contradictions with the tensors.
ModelConfig read_llama_params(const HuggingFaceReader& json, const LlamaTensors& tensors,
                              std::string& assumed);
// The file's text for a model. Refused (exit code 2), by key: what Meta's programs do not compute.
std::string llama_params(const ModelConfig& model);

}  // namespace trireme
