// Writes config.json and generation_config.json.
#include <nlohmann/json.hpp>

#include "formats/huggingface/config.h"

namespace trireme {
namespace {

using Json = HuggingFaceJson;

// Absent tokens are written as null, because some classes have a default token.
void add_tokens(Json& json, const SpecialTokens& tokens) {
  const auto id = [](std::int64_t token) { return token < 0 ? Json(nullptr) : Json(token); };
  json["bos_token_id"] = id(tokens.bos);
  json["eos_token_id"] = id(tokens.eos);
  if (!tokens.further_eos.empty()) {
    json["eos_token_id"] = Json::array({tokens.eos});
    for (const std::int64_t token : tokens.further_eos) json["eos_token_id"].push_back(token);
  }
  json["pad_token_id"] = id(tokens.pad);
}

}  // namespace

std::string huggingface_config_text(const HuggingFaceModel& model, std::string_view torch_dtype) {
  Json json{{"architectures", {huggingface_class(*model.kind, model.model)}},
            {"model_type", model.kind->model_type}};
  json.update(model.kind->write(model.model));
  add_tokens(json, model.tokens);
  json["torch_dtype"] = torch_dtype;
  return json.dump(2) + "\n";
}

std::string huggingface_generation_text(const SpecialTokens& tokens) {
  Json json = Json::object();
  add_tokens(json, tokens);
  return json.dump(2) + "\n";
}

std::string huggingface_note(const ModelConfig& model) {
  if (!model.moe.keeps_load()) return "";
  return "moe.aux_loss = \"global\" and its counts are not exported, because config.json has no "
         "key for them: the model computes the same, but other programs balance its experts "
         "differently";
}

}  // namespace trireme
