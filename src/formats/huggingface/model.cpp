// A Hugging Face folder as a model: its configuration, its weights and its tokenizer.
#include "formats/huggingface/model.h"

#include "formats/huggingface/folder.h"
#include "formats/huggingface/names.h"
#include "formats/huggingface/tokenizer.h"

namespace trireme {

ForeignModel open_huggingface_folder(const fs::path& folder, const ModelSettings& settings) {
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
  return out;
}

}  // namespace trireme
