// The table of families.
#include "config/families.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <list>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array<Refusal<ModelConfig>, 1> kDecoderModels{{
    {[](const ModelConfig& m) { return m.norm_placement == NormPlacement::post; },
     "model.norm_placement = \"post\" requires model.family = \"bert\": use pre, output or both"},
}};

constexpr std::array<Refusal<ModelConfig>, 11> kBertModels{{
    {[](const ModelConfig& m) { return m.is_latent(); },
     "model.kv_lora_rank conflicts with model.family = \"bert\": remove it"},
    {[](const ModelConfig& m) { return m.attention_gate || !m.linear_layers.empty(); },
     "model.linear_layers and model.attention_gate conflict with model.family = \"bert\", whose "
     "attention is bidirectional: remove them"},
    {[](const ModelConfig& m) { return m.position == PositionEncoding::alibi; },
     "model.position = \"alibi\" is causal, but attention of model.family = \"bert\" is "
     "bidirectional: use learned"},
    {[](const ModelConfig& m) { return m.embedding_norm; },
     "model.embedding_norm conflicts with model.family = \"bert\", which already has one with "
     "norm_placement = \"post\": remove it"},
    {[](const ModelConfig& m) { return m.scale_embedding; },
     "model.scale_embedding conflicts with model.family = \"bert\": remove it"},
    {[](const ModelConfig& m) {
       return m.embedding_multiplier != 1 || m.residual_multiplier != 1 || m.logit_multiplier != 1;
     },
     "model.embedding_multiplier, residual_multiplier and logit_multiplier conflict with "
     "model.family = \"bert\": remove them"},
    {[](const ModelConfig& m) {
       return m.norm_placement == NormPlacement::output || m.norm_placement == NormPlacement::both;
     },
     "model.norm_placement = \"output\" and \"both\" conflict with model.family = \"bert\": use "
     "pre or post"},
    {[](const ModelConfig& m) { return m.attention_soft_cap > 0 || m.logit_soft_cap > 0; },
     "model.attention_soft_cap and model.logit_soft_cap conflict with model.family = \"bert\": "
     "remove them"},
    {[](const ModelConfig& m) { return m.attention_window > 0; },
     "model.attention_window is causal, but attention of model.family = \"bert\" is bidirectional: "
     "remove it"},
    {[](const ModelConfig& m) { return m.attention_sinks; },
     "model.attention_sinks conflicts with model.family = \"bert\", whose padding attends to "
     "nothing: remove it"},
    {[](const ModelConfig& m) { return has_gate(m); },
     "model.activation = \"swiglu\" or \"geglu\" conflicts with model.family = \"bert\", whose "
     "masked-word head has no gate: use gelu_erf or gelu_tanh"},
}};

constexpr std::array<Refusal<Config>, 4> kBertRuns{{
    {[](const Config& c) { return c.parallel.cp > 1; },
     "parallel.cp splits sequences, but model.family = \"bert\" has bidirectional attention and "
     "needs the first position on every rank: use 1"},
    {[](const Config& c) { return c.parallel.exact_block > 0; },
     "parallel.exact_block splits all rows of a model into blocks of tokens, but model.family = "
     "\"bert\" has layers over masked words and over samples: remove it"},
    {[](const Config& c) { return c.curriculum.schedule != CurriculumSchedule::none; },
     "curriculum.schedule truncates samples, which would remove the second segment of model.family "
     "= \"bert\": remove it"},
    {[](const Config& c) {
       return c.data.reset_position_ids || c.data.reset_attention_mask || c.data.eod_mask_loss;
     },
     "data.reset_position_ids, reset_attention_mask and eod_mask_loss apply to samples that pack "
     "documents, which those of model.family = \"bert\" never do: remove them"},
}};

constexpr std::array<Family, 3> kFamilies{{
    {.name = "gpt",
     .architecture = Architecture::decoder,
     .samples = SampleKind::next_tokens,
     .position = PositionEncoding::learned,
     .norm = NormType::layer_norm,
     .activation = MlpActivation::gelu_tanh,
     .bias = true,
     .tie_embeddings = true,
     .norm_eps = 1e-5,
     .model_refusals = kDecoderModels,
     .refusals = {}},
    {.name = "llama",
     .architecture = Architecture::decoder,
     .samples = SampleKind::next_tokens,
     .position = PositionEncoding::rope,
     .norm = NormType::rms_norm,
     .activation = MlpActivation::swiglu,
     .bias = false,
     .tie_embeddings = false,
     .norm_eps = 1e-5,
     .model_refusals = kDecoderModels,
     .refusals = {}},
    {.name = "bert",
     .architecture = Architecture::encoder,
     .samples = SampleKind::masked_words,
     .position = PositionEncoding::learned,
     .norm = NormType::layer_norm,
     .activation = MlpActivation::gelu_erf,
     .bias = true,
     .tie_embeddings = true,
     .norm_eps = 1e-12,
     .model_refusals = kBertModels,
     .refusals = kBertRuns},
}};

const Family* find_built_in(const std::string& name) {
  const auto at = std::ranges::find(kFamilies, name, &Family::name);
  return at == kFamilies.end() ? nullptr : &*at;
}

struct AddedFamily {
  AddedFamily(std::string n, const Family& base) : name(std::move(n)), family(base) {}
  std::string name;
  Family family;
};
std::mutex added_mutex;

// std::list keeps the addresses of its elements stable. Accessed under the mutex.
std::list<AddedFamily>& added_families() {
  static std::list<AddedFamily> families;
  return families;
}
std::list<AddedFamily>::iterator find_added(const std::string& name) {
  return std::ranges::find(added_families(), name, &AddedFamily::name);
}

template <class Settings>
void refuse(std::span<const Refusal<Settings>> refusals, const Settings& settings) {
  for (const Refusal<Settings>& refusal : refusals)
    if (refusal.meets(settings)) fail_input("{}", refusal.message);
}

}  // namespace

std::span<const Family> all_families() {
  return kFamilies;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  return names;
}

const Family& family_of(const ModelConfig& model) {
  if (const Family* family = find_built_in(model.family)) return *family;
  const std::lock_guard lock(added_mutex);
  const auto at = find_added(model.family);
  TRIREME_CHECK(at != added_families().end());
  return at->family;
}

void add_family(const std::string& name, const std::string& like) {
  const Family* const base = find_built_in(like);
  if (!base || base->architecture != Architecture::decoder)
    fail_input("family \"{}\": cannot take defaults from \"{}\": use gpt or llama", name, like);
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  if (name.empty() || !std::ranges::all_of(name, is_word))
    fail_input("family \"{}\": the name must consist of letters, digits and underscores", name);
  const std::lock_guard lock(added_mutex);
  if (find_built_in(name) || find_added(name) != added_families().end())
    fail_input("family \"{}\": a family of this name already exists", name);
  AddedFamily& added = added_families().emplace_back(name, *base);
  added.family.name = added.name.c_str();
  added.family.architecture = Architecture::added;
}

void remove_family(const std::string& name) {
  const std::lock_guard lock(added_mutex);
  const auto at = find_added(name);
  if (at != added_families().end()) added_families().erase(at);
}

std::vector<std::string> added_family_names() {
  const std::lock_guard lock(added_mutex);
  std::vector<std::string> names;
  for (const AddedFamily& added : added_families()) names.push_back(added.name);
  return names;
}

void refuse_for_family(const ModelConfig& model) {
  refuse(family_of(model).model_refusals, model);
}

void refuse_for_family(const Config& config) {
  refuse(family_of(config.model).refusals, config);
}

bool family_refuses(const Config& config) {
  const auto refusals = family_of(config.model).refusals;
  return std::any_of(refusals.begin(), refusals.end(),
                     [&](const auto& refusal) { return refusal.meets(config); });
}

}  // namespace trireme
