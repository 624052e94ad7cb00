// `trireme convert`: weights from Hugging Face folders, and back.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/stop.h"
#include "checkpoint/huggingface.h"
#include "cli/commands.h"
#include "data/configured_tokenizer.h"

namespace trireme::cli {
namespace {

struct Options {
  std::string from, to, input, output, dtype;
  double max_file_gb = 5;
  bool as_json = false;
};

const char* name_of(HuggingFaceKind kind) {
  switch (kind) {
    case HuggingFaceKind::gpt2:
      return "GPT2LMHeadModel";
    case HuggingFaceKind::llama:
      return "LlamaForCausalLM";
    case HuggingFaceKind::bert:
      return "BertForPreTraining";
    case HuggingFaceKind::megatron_bert:
      return "MegatronBertForPreTraining";
  }
  return "?";
}

// The special tokens of the run's tokenizer, as far as Hugging Face's files name them.
HuggingFaceTokens special_tokens(const Config& config) {
  if (config.data.tokenizer.empty()) return {};
  const auto tokenizer = make_tokenizer(config);
  const SpecialIds& ids = tokenizer->special();
  const std::int32_t end = ids.eos >= 0 ? ids.eos : ids.eod;
  return {ids.bos >= 0 ? ids.bos : end, end, ids.pad, {}};
}

// What stands in the output might be taken for a part of it later.
void require_new_folder(const fs::path& folder) {
  if (fs::exists(folder) && (!fs::is_directory(folder) || !fs::is_empty(folder))) {
    fail_input(
        "'{}' is there already and not an empty folder; give another one, or remove it if a "
        "conversion into it was stopped",
        folder.string());
  }
}

ConversionReport convert(const Options& options) {
  require_new_folder(options.output);
  if (options.from == "hf" && options.to.empty()) {
    if (!options.dtype.empty()) fail_input("--dtype is for --to hf; a run chooses run.precision");
    return import_huggingface(options.input, options.output, "trireme convert",
                              &ThreadPool::global());
  }
  if (options.to == "hf" && options.from.empty()) {
    ExportOptions how;
    if (options.dtype == "fp32") how.dtype = DType::f32;
    if (options.dtype == "bf16") how.dtype = DType::bf16;
    if (options.dtype == "fp16") how.dtype = DType::f16;
    how.tokens = special_tokens(checkpoint_config(options.input));
    how.max_file_bytes = static_cast<std::int64_t>(options.max_file_gb * 1e9);
    return export_huggingface(options.input, options.output, how);
  }
  fail_input(
      "give one of --from hf (a Hugging Face folder becomes a run's folder) and --to hf (a "
      "checkpoint becomes a Hugging Face folder)");
}

void run(const Options& options) {
  const ConversionReport report = convert(options);
  if (options.as_json) {
    const nlohmann::ordered_json json{{"model", name_of(report.kind)},
                                      {"folder", report.folder.string()},
                                      {"tensors", report.tensors},
                                      {"elements", report.elements},
                                      {"note", report.note}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  fmt::print("{}: {}, {}, written to {}\n", name_of(report.kind), counted(report.tensors, "tensor"),
             counted(report.elements, "element"), report.folder.string());
  if (!report.note.empty()) fmt::print("note: {}\n", report.note);
}

}  // namespace

void add_convert(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "convert", "Convert weights from a Hugging Face folder to a run's folder, or back");
  command->add_option("--from", options->from, "Kind of the input, if not a checkpoint of ours: hf")
      ->check(CLI::IsMember({"hf"}));
  command->add_option("--to", options->to, "Kind of the output, if not a run of ours: hf")
      ->check(CLI::IsMember({"hf"}));
  command
      ->add_option("input", options->input,
                   "With --from hf its folder; with --to hf a checkpoint's or run's folder")
      ->required();
  command->add_option("output", options->output, "Folder to write; must not hold anything yet")
      ->required();
  command
      ->add_option("--dtype", options->dtype,
                   "With --to hf: element type of all weights; default: of each as stored")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command
      ->add_option("--max-file-size", options->max_file_gb,
                   "With --to hf: GB after which another safetensors file begins")
      ->capture_default_str()
      ->check(CLI::Range(1e-6, 1e6));
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->callback([options] { stoppable([&] { run(*options); }); });
}

}  // namespace trireme::cli
