// Opens a Hugging Face folder as a model: its configuration, weights and tokenizer.
#include "formats/huggingface/model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formats/huggingface/folder.h"
#include "formats/huggingface/names.h"
#include "formats/huggingface/tokenizer.h"

namespace trireme {
namespace {

// Trainers save optimizer states next to the weights; only the weights are imported.
std::string note_of_states(const fs::path& folder) {
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with("global_step") && item.is_directory(error)) {
      return fmt::format("the optimizer states in '{}' are not imported: give '{}' to import them",
                         name, item.path().string());
    }
    if (name == "optimizer.pt" || name == "optimizer.bin")
      return fmt::format("the optimizer states in '{}' are not imported", name);
  }
  return "";
}

// transformers applies an adapter of PEFT that lies next to the weights.
void refuse_adapter(const fs::path& folder) {
  for (const char* name :
       {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}) {
    if (!fs::exists(folder / name)) continue;
    fail_input(
        "'{}' contains a PEFT adapter ('{}'), which changes what the model computes: merge it into "
        "the weights first (merge_and_unload), or remove it",
        folder.string(), name);
  }
}

}  // namespace

ForeignModel open_huggingface_folder(const fs::path& folder, const ModelSettings& settings) {
  refuse_adapter(folder);
  HuggingFaceModel model = read_huggingface_config(folder);
  WeightFiles files = open_huggingface_weights(folder);
  add_note(model.note, fit_to_files(model, files));
  ForeignModel out;
  model.model = with_settings(model.model, settings, out.note);
  out.kind = huggingface_class(*model.kind, model.model);
  out.model = model.model;
  out.tokens = model.tokens;
  auto weights = std::make_unique<HuggingFaceWeights>(folder, std::move(files), model);
  out.mapping = huggingface_mapping(model, weights->experts());
  out.weights = std::move(weights);
  out.tokenizer = [folder, kind = model.kind](const fs::path& to) {
    return import_huggingface_tokenizer(folder, to, *kind);
  };
  add_note(out.note, model.note);
  add_note(out.note, note_of_states(folder));
  return out;
}

}  // namespace trireme
