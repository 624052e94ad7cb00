// Tables of formats; folders are matched in the order of the table of readable formats.
#include "importers/folder/formats.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/foreign.h"
#include "formats/dcp/export.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/model.h"
#include "formats/deepspeed/huggingface.h"
#include "formats/deepspeed/step.h"
#include "formats/huggingface/folder.h"
#include "formats/huggingface/model.h"
#include "formats/llama/export.h"
#include "formats/llama/folder.h"
#include "formats/megatron/export.h"
#include "formats/megatron/step.h"
#include "formats/megatron/torch_dist_folder.h"
#include "importers/megatron/arguments.h"
#include "importers/megatron/checkpoint.h"
#include "importers/megatron/saved_run.h"
#include "importers/settings/settings_file.h"

namespace trireme {
namespace {

// Other formats may also have a config.json in their folder.
bool is_huggingface_folder(const fs::path& folder) {
  return fs::exists(folder / "config.json") &&
         (!open_huggingface_weights(folder).empty() ||
          (!is_deepspeed_folder(folder) && find_split_dcp_folder(folder).model.empty()));
}

bool is_dcp(const fs::path& folder) {
  return is_dcp_folder(folder) || !find_split_dcp_folder(folder).model.empty();
}

ForeignModel open_deepspeed_with(const fs::path& folder, const ModelSettings& settings,
                                 const fs::path& config) {
  if (is_deepspeed_of_others(folder)) return open_deepspeed_of_others(folder, settings, config);
  if (!config.empty())
    fail_input("--config does not apply to Megatron-DeepSpeed, whose files describe their model");
  return megatron::open_deepspeed_folder(folder, settings);
}

ForeignModel open_deepspeed(const fs::path& folder, const ModelSettings& settings) {
  return open_deepspeed_with(folder, settings, {});
}

ForeignModel open_dcp(const fs::path& folder, const ModelSettings& settings) {
  return open_dcp_folder(folder, settings);
}

// Megatron-Bridge saves its configuration beside a step, and no arguments in it.
std::optional<Config> bridge_run(const fs::path& step) {
  const fs::path file = step / "run_config.yaml";
  if (!fs::exists(file)) return std::nullopt;
  const settings::SettingsFile run = settings::read_settings_file(file, 0);
  for (const megatron::Note& lost : run.translation.lost)
    if (lost.flag.starts_with("model."))
      fail_input("'{}': {} {}", file.string(), lost.flag, lost.text);
  return megatron::to_config(run.translation);
}

ForeignModel open_torch_dist(const fs::path& folder, const ModelSettings& settings) {
  return megatron::open_torch_dist_folder(folder, settings, bridge_run);
}

constexpr ForeignFormat formats[] = {
    {"torch_dist",
     "Megatron-Core: .metadata, *.distcp, metadata.json and common.pt (--ckpt-format torch_dist); "
     "of Megatron-Bridge with its run_config.yaml",
     is_torch_dist_folder, open_torch_dist},
    {"dcp",
     "torch.distributed.checkpoint: .metadata and *.distcp, with torchtitan's names or Hugging "
     "Face's",
     is_dcp, open_dcp, open_dcp_folder},
    {"hf", "Hugging Face: config.json and *.safetensors or pytorch_model*.bin",
     is_huggingface_folder, open_huggingface_folder},
    {"llama", "Meta's Llama: params.json and consolidated.NN.pth", is_llama_folder,
     open_llama_folder},
    {"deepspeed",
     "DeepSpeed: mp_rank_XX_model_states.pt, the files of ZeRO's ranks, universal checkpoints of "
     "Megatron-DeepSpeed; with --config and Hugging Face's names those of other programs",
     is_deepspeed_folder, open_deepspeed, open_deepspeed_with},
    {"megatron", "Megatron-LM: mp_rank_TT[_PPP]/model_optim_rng.pt with any tp x pp",
     is_megatron_folder, megatron::open_megatron_folder},
};

ConversionReport write_hf(const ExportRequest& request) {
  return export_huggingface(request.checkpoint, request.to, request.options);
}

ConversionReport write_dcp(const ExportRequest& request) {
  return export_dcp(request.checkpoint, request.to, DcpNames::huggingface, request.options);
}

ConversionReport write_torchtitan(const ExportRequest& request) {
  return export_dcp(request.checkpoint, request.to, request.torchtitan, request.options);
}

ConversionReport write_megatron(const ExportRequest& request) {
  return export_megatron(request.checkpoint, request.to, request.layout,
                         megatron::arguments_of(request.config, request.layout), request.options);
}

ConversionReport write_torch_dist(const ExportRequest& request) {
  const MegatronLayout whole{.kind = MegatronKind::distributed};
  const TorchDict arguments = megatron::arguments_of(request.config, whole);
  std::string unsaid;
  ConversionReport report = export_torch_dist(
      request.checkpoint, request.to,
      [&](const Config& config, const CheckpointState& state, bool with_states) {
        if (!with_states) return megatron::saved_release(arguments);
        unsaid = megatron::unsaid_of_run(config);
        return megatron::saved_run(arguments, config, state);
      },
      request.options);
  add_note(report.note, unsaid);
  return report;
}

ConversionReport write_llama(const ExportRequest& request) {
  return export_llama(request.checkpoint, request.to, request.layout.tp, request.options);
}

const std::vector<WrittenFormat>& written_formats() {
  static const std::vector<WrittenFormat> table{
      {"hf",
       "Hugging Face: config.json, safetensors or pytorch_model*.bin, the tokenizer",
       write_hf,
       {"--weight-files", "--max-file-size"}},
      {"dcp",
       "torch.distributed.checkpoint with Hugging Face's names, and the states of AdamW",
       write_dcp,
       {"--max-file-size"}},
      {"torchtitan",
       "the same with torchtitan's names for Llama and Qwen3 models",
       write_torchtitan,
       {"--max-file-size", "--torchtitan-names"}},
      {"megatron",
       "Megatron-LM (--ckpt-format torch): release/mp_rank_TT[_PPP]/model_optim_rng.pt",
       write_megatron,
       {"--tp", "--pp", "--megatron-names"}},
      {"torch_dist",
       "Megatron-Core (--ckpt-format torch_dist), loaded on any layout, with the states of AdamW",
       write_torch_dist,
       {"--max-file-size"}},
      {"llama",
       "Meta's Llama: params.json and consolidated.NN.pth, one file per rank of --tp",
       write_llama,
       {"--tp"}},
  };
  return table;
}

bool is_one_rank(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder / ".").lexically_normal().parent_path();
  return whole.filename().string().starts_with("mp_rank_") &&
         fs::exists(folder / "model_optim_rng.pt");
}

// Names a folder with weights, not one of an optimizer's states ("optimizer_0", "optim").
void refuse_folder_of_dcp_folders(const fs::path& folder) {
  fs::path states;
  for (const auto& item : fs::directory_iterator(folder)) {
    if (!is_dcp_folder(item.path())) continue;
    if (item.path().filename().string().starts_with("optim")) {
      states = item.path();
      continue;
    }
    fail_input("'{}' contains torch.distributed.checkpoint folders: give one of them, such as '{}'",
               folder.string(), item.path().string());
  }
  if (states.empty()) return;
  fail_input(
      "'{}' has the states of an optimizer in '{}', but no folder with weights, such as "
      "pytorch_model_fsdp_0: copy all folders of the checkpoint",
      folder.string(), states.filename().string());
}

}  // namespace

const ForeignFormat& foreign_format(const std::string& name, const fs::path& folder) {
  if (!fs::exists(folder)) fail_input("'{}' does not exist", folder.string());
  if (!fs::is_directory(folder)) {
    const std::string foreign = describe_foreign(folder);
    fail_input("'{}' is a file, but a folder was expected{}{}", folder.string(),
               foreign.empty() ? "" : "; ", foreign);
  }
  for (const ForeignFormat& format : formats)
    if (name.empty() ? format.is_one(folder) : name == format.name) return format;
  if (is_one_rank(folder)) {
    fail_input(
        "'{}' is one rank of a Megatron checkpoint, but the folder of all ranks was expected: "
        "'{}'",
        folder.string(), fs::absolute(folder).lexically_normal().parent_path().string());
  }
  refuse_folder_of_dcp_folders(folder);
  const std::string foreign = describe_incomplete(folder);
  fail_input("'{}' is not in a supported format{}{} (trireme convert --help lists them)",
             folder.string(), foreign.empty() ? "" : "; ", foreign);
}

namespace {

template <class Formats>
std::vector<std::string> names_of(const Formats& all) {
  std::vector<std::string> names;
  for (const auto& format : all) names.emplace_back(format.name);
  return names;
}

template <class Formats>
std::string lines_of(const Formats& all) {
  std::string text;
  for (const auto& format : all) text += fmt::format("  {:<12}{}\n", format.name, format.what);
  return text;
}

std::string joined_by_or(const std::vector<std::string>& names) {
  const auto last = names.end() - 1;
  return names.size() < 2 ? names.at(0)
                          : fmt::format("{} or {}", fmt::join(names.begin(), last, ", "), *last);
}

}  // namespace

std::vector<std::string> foreign_format_names() {
  return names_of(formats);
}

std::string foreign_formats_text() {
  return lines_of(formats);
}

bool WrittenFormat::takes(const std::string& option) const {
  return std::ranges::find(options, option) != options.end();
}

const WrittenFormat* find_written_format(const std::string& name) {
  for (const WrittenFormat& format : written_formats())
    if (format.name == name) return &format;
  return nullptr;
}

std::string written_format_names() {
  return joined_by_or(names_of(written_formats()));
}

std::string written_formats_text() {
  return lines_of(written_formats());
}

std::string formats_with(const std::string& option) {
  std::vector<std::string> names;
  for (const WrittenFormat& format : written_formats())
    if (format.takes(option)) names.emplace_back(format.name);
  return joined_by_or(names);
}

}  // namespace trireme
