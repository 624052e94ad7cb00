// Lists the kinds and finds the one that computes the same as a model.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "config/families.h"
#include "formats/huggingface/config.h"
#include "formats/same_model.h"

namespace trireme {
namespace {

// Reads back the config.json that a kind writes for the model; nullopt if the class cannot read it.
// The vocabulary size may be unknown yet, and what BERT's file leaves open is determined by its
// tensors.
std::optional<ModelConfig> said_by(const HuggingFaceKind& kind, const ModelConfig& model) {
  const std::string name = "the config.json to write";
  ModelConfig written = model;
  written.vocab_size = std::max<std::int64_t>(1, model.vocab_size);
  try {
    const HuggingFaceReader json(kind.write(written).dump(), name);
    ModelConfig said = read_as(kind, json);
    said.vocab_size = model.vocab_size;
    said.order_head = model.order_head;
    said.token_types = model.token_types;
    return said;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<const HuggingFaceKind*>& huggingface_kinds() {
#define TRIREME_HUGGINGFACE_ROW(name) &name##_kind,
  static std::vector<const HuggingFaceKind*> kinds{
      TRIREME_HUGGINGFACE_KINDS(TRIREME_HUGGINGFACE_ROW)};
#undef TRIREME_HUGGINGFACE_ROW
  return kinds;
}

const HuggingFaceKind* huggingface_kind(const ModelConfig& model) {
  const Architecture architecture = family_of(model).architecture;
  if (architecture == Architecture::added) {
    fail_input(
        "model.family = {:?} is defined by a program and has no Hugging Face format: use "
        "checkpoint.export = \"none\"",
        model.family);
  }
  const HuggingFaceKind* nearest = nullptr;
  std::vector<ModelDifference> unsaid;
  std::vector<const HuggingFaceKind*> kinds = huggingface_kinds();
  // Other classes keep keys that were rotated by the factors of shorter texts as generation
  // continues.
  if (model.rope_scaling == RopeScaling::longrope) kinds.insert(kinds.begin(), &phi3_kind);
  for (const HuggingFaceKind* kind : kinds) {
    const auto said = said_by(*kind, model);
    if (!said || family_of(*said).architecture != architecture) continue;
    auto differences = differences_of_results(model, *said);
    if (differences.empty()) return kind;
    if (nearest && differences.size() >= unsaid.size()) continue;
    nearest = kind;
    unsaid = std::move(differences);
  }
  TRIREME_CHECK(nearest);  // GPT-2 and BERT can be written for any model
  fail_input("cannot export to Hugging Face: {} has no equivalent of {} = {}", nearest->class_name,
             unsaid[0].key, unsaid[0].value);
}

const char* huggingface_class(const HuggingFaceKind& kind, const ModelConfig& model) {
  return kind.masked_class && !model.order_head ? kind.masked_class : kind.class_name;
}

}  // namespace trireme
