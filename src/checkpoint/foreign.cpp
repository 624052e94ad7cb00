// Matches file names against a table of formats, in a walk of bounded depth and size.
#include "checkpoint/foreign.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <iterator>
#include <string_view>

namespace trireme {
namespace {

constexpr int deepest = 2;
constexpr int most_names = 4000;

// A file or folder whose name matches the pattern (shell glob) indicates the format. Earlier rows
// win: formats that contain files of others come first. A loose sign is only a file extension,
// which is common: it counts only for the path itself and for its direct entries.
struct Sign {
  const char* pattern;
  std::string_view format;
  std::string_view advice;  // "": trireme convert reads the folder that is `up` levels above it
  bool loose = false;
  int up = 1;
};

constexpr std::string_view convert_it;
constexpr std::string_view export_first =
    "which cannot be read: export it to a Hugging Face folder, using the tools of the program that "
    "wrote it, and then use trireme convert";
constexpr std::string_view save_as_safetensors =
    "which cannot be read: in Python, load it with transformers' from_pretrained(FOLDER) and save "
    "it with save_pretrained(NEW_FOLDER), which writes model.safetensors";
constexpr std::string_view look_inside =
    "of which trireme inspect FILE shows the content; trireme convert reads the folders of "
    "Megatron, of Meta's Llama and of Hugging Face that such files lie in";

constexpr Sign signs[] = {
    {"*[_-]model_states.pt", "a DeepSpeed checkpoint", convert_it},
    {"*_optim_states.pt", "a DeepSpeed checkpoint", convert_it},
    {"global_step*", "a DeepSpeed checkpoint", convert_it, false, 0},
    {"latest_universal", "a DeepSpeed checkpoint", convert_it},
    {"zero_to_fp32.py", "a DeepSpeed checkpoint", convert_it},
    {"model_optim_rng.pt", "a Megatron checkpoint", convert_it, false, 2},
    {"distrib_optim.pt", "a Megatron checkpoint", convert_it, false, 2},
    {"latest_checkpointed_iteration.txt", "a Megatron checkpoint", convert_it},
    {"mp_rank_*", "a Megatron checkpoint", convert_it},
    {"iter_0*", "a Megatron checkpoint", convert_it, false, 0},
    {"*.distcp", "a PyTorch distributed checkpoint (DCP)", convert_it},
    {"consolidated.*.pth", "Llama weights as Meta publishes them", convert_it},
    {"pytorch_model*.bin", "a Hugging Face model with PyTorch files", convert_it},
    {"tf_model*.h5", "a Hugging Face model with TensorFlow files", save_as_safetensors},
    {"flax_model*.msgpack", "a Hugging Face model with Flax files", save_as_safetensors},
    {"model*.safetensors", "a Hugging Face model", convert_it},
    {"model.safetensors.index.json", "a Hugging Face model", convert_it},
    {"*.gguf", "a GGUF model", export_first, true},
    {"*.nemo", "a NeMo model", export_first, true},
    {"*.ckpt", "a Lightning checkpoint", export_first, true},
    {"*.pt", "a PyTorch checkpoint", look_inside, true},
    {"*.pth", "a PyTorch checkpoint", look_inside, true},
};

enum class Signs { all, certain };

struct Finding {
  std::size_t sign = std::size(signs);
  std::string name;  // relative to the given path
  fs::path path;

  void look_at(const fs::path& at, const fs::path& from, Signs which) {
    const std::string name_here = at.filename().string();
    for (std::size_t i = 0; i < sign; ++i) {
      if (signs[i].loose && which == Signs::certain) continue;
      if (fnmatch(signs[i].pattern, name_here.c_str(), 0) != 0) continue;
      sign = i;
      name = at == from ? name_here : at.lexically_relative(from).string();
      path = at;
    }
  }

  // `tried` is the folder that could not be converted, or empty.
  std::string text(const fs::path& tried = {}) const {
    if (sign == std::size(signs)) return "";
    return fmt::format("it looks like {} ('{}'), {}", signs[sign].format, name,
                       signs[sign].advice.empty() ? convert_command(tried) : signs[sign].advice);
  }

  std::string convert_command(const fs::path& tried) const {
    fs::path folder = path;
    for (int level = 0; level < signs[sign].up; ++level) folder = folder.parent_path();
    // accelerate gives weights and states of an optimizer a folder each.
    const std::string last = folder.filename().string();
    if (last.starts_with("optimizer_") || last.starts_with("pytorch_model_fsdp_"))
      folder = folder.parent_path();
    if (folder.empty()) folder = ".";
    std::error_code error;
    if (!tried.empty() && fs::equivalent(folder, tried, error)) return "of which files are missing";
    return fmt::format("which trireme convert {} RUN makes a run of", folder.string());
  }
};

Finding look_into(const fs::path& path) {
  Finding found;
  found.look_at(path, path, Signs::all);
  std::error_code error;
  fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error);
  int names = 0;
  for (const fs::recursive_directory_iterator end; !error && it != end && names < most_names;
       it.increment(error), ++names) {
    found.look_at(it->path(), path, it.depth() == 0 ? Signs::all : Signs::certain);
    if (it.depth() >= deepest) it.disable_recursion_pending();
  }
  return found;
}

}  // namespace

std::string describe_foreign(const fs::path& path) {
  return look_into(path).text();
}

std::string describe_incomplete(const fs::path& folder) {
  return look_into(folder).text(folder);
}

std::string describe_foreign_run(const fs::path& run) {
  std::error_code error;
  if (fs::exists(run / "checkpoints", error) || fs::exists(run / "manifest.json", error)) return "";
  Finding found;
  int names = 0;
  fs::directory_iterator it(run, fs::directory_options::skip_permission_denied, error);
  for (const fs::directory_iterator end; !error && it != end && names < most_names;
       it.increment(error), ++names)
    found.look_at(it->path(), run, Signs::certain);
  return found.text();
}

}  // namespace trireme
