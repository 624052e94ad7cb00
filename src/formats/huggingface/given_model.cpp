// The first of three places that says it.
#include "formats/huggingface/given_model.h"

#include "base/error.h"

namespace trireme {
namespace {

GivenModel read_huggingface(const fs::path& file) {
  const std::string name = file.string();
  const HuggingFaceModel model =
      parse_huggingface_config(read_file(file, std::uint64_t{16} << 20), name);
  GivenModel given;
  given.config.model = model.model;
  given.tokens = model.tokens;
  given.kind = model.kind;
  given.huggingface = fs::absolute(file).parent_path();
  given.name = file.filename().string();
  return given;
}

}  // namespace

GivenModel read_given_model(const fs::path& folder, const fs::path& config,
                            const ModelSettings& settings, const std::string& hint) {
  if (!config.empty()) {
    if (!fs::is_regular_file(config)) fail_input("--config: '{}' is not a file", config.string());
    if (config.extension() == ".json") return read_huggingface(config);
    GivenModel given;
    given.config = load_config(config.string(), {});
    given.name = config.filename().string();
    given.is_run = true;
    return given;
  }
  if (fs::exists(folder / "config.json")) return read_huggingface(folder / "config.json");
  if (settings.empty()) {
    fail_input(
        "'{}' does not say what model its tensors are of: give --config FILE, {}, or settings such "
        "as --set model.preset=llama3-8b",
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

void give_tokenizer(ForeignModel& out, const GivenModel& given, HuggingFaceKind kind) {
  if (given.huggingface.empty()) return;
  out.tokenizer = [folder = given.huggingface, kind](const fs::path& to) {
    return import_huggingface_tokenizer(folder, to, kind);
  };
}

}  // namespace trireme
