// Compares the tensors of a checkpoint with the parameters of a model.
#include "train/checkpoints/left_out_weights.h"

#include <fmt/ranges.h>

#include <set>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "config/fields.h"
#include "model/transformer.h"

namespace trireme {
namespace {

bool is_training_aid(const std::string& name) {
  return name.starts_with("mtp.") || name.ends_with(".mlp.router.load");
}

std::set<std::string> parameters_of(const ModelConfig& model) {
  BuildOptions options;
  options.purpose = model.mtp_layers > 0 ? Purpose::training : Purpose::scoring;
  options.seq = 1;
  std::set<std::string> names;
  for (const Parameter& parameter : build_model(model, options).parameters)
    names.insert(parameter.name);
  return names;
}

// Changed settings of the model, as text; "" if the saved configuration cannot be read.
std::string changes_of_model(const std::string& saved, const Config& config,
                             const std::string& name) {
  std::vector<std::string> keys;
  for (const Field& field : all_fields())
    if (field.section == "model" || field.section == "moe") keys.push_back(field.key());
  try {
    return fmt::format("{}", fmt::join(changes(parse_config(saved, name), config, keys), "; "));
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string left_out_weights(const CheckpointReader& reader, const Config& config) {
  const std::set<std::string> own = parameters_of(config.model);
  std::string first;
  std::int64_t count = 0;
  for (const StoredTensor& tensor : reader.manifest().tensors) {
    const std::string& name = tensor.name;
    if (name.starts_with("optimizer.") || own.contains(name) || is_training_aid(name)) continue;
    if (count++ == 0) first = name;
  }
  if (count == 0) return "";
  const std::string folder = reader.folder().string();
  const std::string changed = changes_of_model(reader.state().config_toml, config, folder);
  return fmt::format("'{}' holds {} that this model does not have, first '{}'{}{}", folder,
                     counted(count, "tensor"), first, changed.empty() ? "" : ": ", changed);
}

}  // namespace trireme
