// Settings of a model in params.json of Meta's Llama folders, those that it leaves open, and its
// writer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"
#include "formats/huggingface/reader.h"

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

// What tensors say of a model beside params.json.
class LlamaTensors {
 public:
  virtual ~LlamaTensors() = default;
  // Refused (exit code 2): another number of rows of queries in all files.
  virtual void check_queries(std::int64_t rows) const = 0;
  virtual std::int64_t inner_width() const = 0;
  virtual std::int64_t words(std::int64_t hidden_size) const = 0;
  virtual bool is_tied() const = 0;  // the head is the embedding once more
};

// The model of a params.json, resolved; `assumed` becomes what it leaves open. Refused (exit code
// 2): keys that are not known, and what the tensors contradict.
ModelConfig read_llama_params(const HuggingFaceReader& json, const LlamaTensors& tensors,
                              std::string& assumed);
// The text for a model. Refused (exit code 2): what Meta's programs do not compute, naming the key.
std::string llama_params(const ModelConfig& model);

}  // namespace trireme
