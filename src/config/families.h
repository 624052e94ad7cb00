// The model families: what each one implies, reads and refuses. An entry here and an architecture
// in model/ make a family; formats/ knows which files of other systems hold it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

// Which graphs of model/ compute a family.
enum class Architecture : std::uint8_t {
  decoder,  // predicts each token from those before it
  encoder,  // predicts masked words from all of the sample
  added,    // what the program says that has added the family
};

// Which samples of data/ a family learns from.
enum class SampleKind : std::uint8_t {
  next_tokens,   // windows over a stream of documents
  masked_words,  // two segments of sentences with masked words
};

// A setting that a family cannot compute or that would do nothing.
template <class Settings>
struct Refusal {
  bool (*meets)(const Settings&);
  const char* message;
};

struct Family {
  const char* name;
  Architecture architecture;
  SampleKind samples;
  // Defaults of [model].
  const char* position;
  const char* norm;
  const char* activation;
  bool bias;
  bool tie_embeddings;
  double norm_eps;
  std::span<const Refusal<ModelConfig>> model_refusals;
  std::span<const Refusal<Config>> refusals;
};

std::span<const Family> all_families();
std::vector<std::string> family_names();

// Families that a program adds to these, by a name of its own and with the defaults and refusals of
// a decoder's family. Refused (exit code 2): a name that is taken or no name, and a family `like`
// that is not a decoder. What an added family is made of stays the program's: see model/builder.h.
// Safe from several threads at once.
void add_family(const std::string& name, const std::string& like);
// No model of the family is in use any more.
void remove_family(const std::string& name);
std::vector<std::string> added_family_names();

// The family of a model; model.family is one of the names.
const Family& family_of(const ModelConfig& model);

// Refuses (exit code 2) what the family does.
void refuse_for_family(const ModelConfig& model);
void refuse_for_family(const Config& config);
bool family_refuses(const Config& config);

}  // namespace trireme
