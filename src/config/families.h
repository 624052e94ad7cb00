// Model families: defaults, supported settings and refusals of each. An entry here and an
// architecture in model/ define a family; formats/ maps foreign files to families.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

// The model/ graphs that compute a family.
enum class Architecture : std::uint8_t {
  decoder,  // causal: predicts the next token
  encoder,  // bidirectional: predicts masked words
  added,    // defined by the program that added the family
};

// Kind of data/ samples that a family trains on.
enum class SampleKind : std::uint8_t {
  next_tokens,   // windows over a stream of documents
  masked_words,  // two segments of sentences with masked words
};

// A setting that a family cannot compute or that would have no effect.
template <class Settings>
struct Refusal {
  bool (*meets)(const Settings&);
  const char* message;
};

struct Family {
  const char* name;
  Architecture architecture;
  SampleKind samples;
  // Defaults of [model] where the user sets nothing.
  PositionEncoding position;
  NormType norm;
  MlpActivation activation;
  bool bias;
  bool tie_embeddings;
  double norm_eps;
  std::span<const Refusal<ModelConfig>> model_refusals;
  std::span<const Refusal<Config>> refusals;
};

std::span<const Family> all_families();
std::vector<std::string> family_names();

// Adds a family under its own name, with the defaults and refusals of the decoder family
// `like`. Refused (exit code 2): an empty name or one already taken, and a `like` that is not
// a decoder. The program that adds a family defines its graph: see model/builder.h.
// Thread-safe.
void add_family(const std::string& name, const std::string& like);
// Requires that no model of the family is in use any more.
void remove_family(const std::string& name);
std::vector<std::string> added_family_names();

// The family of a model; model.family is one of the names.
const Family& family_of(const ModelConfig& model);

// Refuses (exit code 2) settings that the family refuses.
void refuse_for_family(const ModelConfig& model);
void refuse_for_family(const Config& config);
bool family_refuses(const Config& config);

}  // namespace trireme
