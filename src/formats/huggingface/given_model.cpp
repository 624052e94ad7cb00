// Looks up the model's description in three places; the first one found is used.
#include "formats/huggingface/given_model.h"

#include "base/error.h"
#include "formats/huggingface/tokenizer.h"

namespace trireme {
namespace {

GivenModel read_huggingface(const fs::path& file, const ModelSettings& settings) {
  const std::string name = file.string();
  HuggingFaceModel model = parse_huggingface_config(read_file(file, std::uint64_t{16} << 20), name);
  take_generation_tokens(file.parent_path(), model);
  GivenModel given;
  given.config.model = model.model;
  given.tokens = model.tokens;
  given.kind = model.kind;
  given.note = model.note;
  given.huggingface = fs::absolute(file).parent_path();
  given.name = file.filename().string();
  given.settings = settings;
  return given;
}

}  // namespace

GivenModel read_given_model(const fs::path& folder, const fs::path& config,
                            const ModelSettings& settings, const std::string& hint) {
  if (!config.empty()) {
    if (!fs::is_regular_file(config)) fail_input("--config: '{}' is not a file", config.string());
    if (config.extension() == ".json") return read_huggingface(config, settings);
    GivenModel given;
    given.config = load_config(config.string(), {});
    given.name = config.filename().string();
    given.is_run = true;
    given.settings = settings;
    return given;
  }
  if (fs::exists(folder / "config.json")) return read_huggingface(folder / "config.json", settings);
  if (settings.empty()) {
    fail_input(
        "'{}' does not describe its model: add --config FILE, {}, or settings such as --set "
        "model.preset=llama3-8b",
        folder.string(),
        hint.empty()
            ? "a config.json of Hugging Face or a TOML file of Trireme with the section [model]"
            : hint);
  }
  GivenModel given;
  given.config = parse_config("", "--set", settings);
  given.name = "configuration";
  return given;
}

HuggingFaceModel apply_settings(GivenModel& given, std::string& note) {
  ModelConfig& m = given.config.model;
  add_note(note, given.note);
  m = with_settings(m, given.settings, note);
  validate(m);
  return {given.kind ? given.kind : huggingface_kind(m), m, given.tokens, ""};
}

ForeignModel describe_model(const GivenModel& given, const HuggingFaceModel& model,
                            ExpertStorage experts, const JoinedTensors& joined) {
  ForeignModel out;
  out.kind = huggingface_class(*model.kind, model.model);
  out.model = model.model;
  out.tokens = given.tokens;
  out.mapping = huggingface_mapping(model, experts);
  joined.require_use_of_all(out.mapping);
  if (given.is_run) out.config = given.config;
  if (given.huggingface.empty()) return out;
  out.tokenizer = [folder = given.huggingface, kind = model.kind](const fs::path& to) {
    return import_huggingface_tokenizer(folder, to, *kind);
  };
  return out;
}

}  // namespace trireme
