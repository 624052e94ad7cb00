// `trireme convert`: checkpoints of other programs to runs, and back.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/stop.h"
#include "checkpoint/dcp.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "cli/commands.h"
#include "cli/convert_formats.h"
#include "data/configured_tokenizer.h"
#include "interop/deepspeed_folder.h"
#include "train/exports.h"

namespace trireme::cli {
namespace {

struct ConvertOptions {
  std::string from, to, input, output, config, dtype;
  std::optional<double> max_file_gb;
  std::string weight_files;
  std::vector<std::string> overrides;
  bool as_json = false;
};

// The configuration of a run, its tokenizer's files where they are now.
Config run_config(const ConvertOptions& options) {
  const CheckpointReader reader(options.input);
  Config config = checkpoint_config(reader.folder(), options.overrides);
  if (!config.data.tokenizer.empty()) {
    locate_tokenizer(config, checkpoint_config(reader.folder()), run_folder(reader.folder()));
  }
  return config;
}

// What is in the output already might be taken for a part of it later.
void require_new_folder(const fs::path& folder) {
  if (fs::exists(folder) && (!fs::is_directory(folder) || !fs::is_empty(folder))) {
    fail_input(
        "'{}' exists already and is not an empty folder: give another one, or remove it if it is "
        "left over from a conversion that was stopped",
        folder.string());
  }
}

ConversionReport import_foreign(const ConvertOptions& options) {
  if (!options.dtype.empty()) fail_input("--dtype is for --to; a run chooses run.precision");
  if (!options.weight_files.empty()) fail_input("--weight-files is for --to hf");
  if (options.max_file_gb) fail_input("--max-file-size is for --to");
  // DeepSpeed has a file of the name `latest` too.
  if (!is_deepspeed_folder(options.input) && find_checkpoint(options.input)) {
    fail_input(
        "'{}' holds a checkpoint of Trireme already: --to hf makes a Hugging Face folder of it",
        options.input);
  }
  const ForeignFormat& format = foreign_format(options.from, options.input);
  if (!options.config.empty() && !format.open_with) {
    fail_input("--config is for --from dcp; the files of --from {} say what model they hold",
               format.name);
  }
  const ForeignModel model =
      format.open_with ? format.open_with(options.input, options.overrides, options.config)
                       : format.open(options.input, options.overrides);
  return import_model(model, options.output, "trireme convert", &ThreadPool::global());
}

ConversionReport export_to_other(const ConvertOptions& options) {
  if (!options.config.empty()) fail_input("--config is for --from dcp");
  const bool is_hf = options.to == "hf";
  if (!is_hf && !options.weight_files.empty()) fail_input("--weight-files is for --to hf");
  const Config config = run_config(options);
  ExportOptions how = export_options(config);
  if (options.dtype == "fp32") how.dtype = DType::f32;
  if (options.dtype == "bf16") how.dtype = DType::bf16;
  if (options.dtype == "fp16") how.dtype = DType::f16;
  if (options.max_file_gb)
    how.max_file_bytes = static_cast<std::int64_t>(*options.max_file_gb * 1e9);
  if (options.weight_files == "bin") how.files = HuggingFaceFiles::torch;
  if (!is_hf) {
    return export_dcp(options.input, options.output,
                      options.to == "dcp" ? DcpNames::huggingface : DcpNames::torchtitan, how);
  }
  return export_huggingface(options.input, options.output, how);
}

ConversionReport convert(const ConvertOptions& options) {
  require_new_folder(options.output);
  if (!options.from.empty() && !options.to.empty()) {
    fail_input(
        "give either --from, which makes a run's folder of another program's, or --to, which makes "
        "another program's of a checkpoint");
  }
  return options.to.empty() ? import_foreign(options) : export_to_other(options);
}

void run_convert(const ConvertOptions& options) {
  const ConversionReport report = convert(options);
  if (options.as_json) {
    const nlohmann::ordered_json json{{"model", report.kind},
                                      {"folder", report.folder.string()},
                                      {"tensors", report.tensors},
                                      {"elements", report.elements},
                                      {"note", report.note}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  fmt::print("{}: {}, {}, written to {}\n", report.kind, counted(report.tensors, "tensor"),
             counted(report.elements, "element"), report.folder.string());
  if (!report.note.empty()) fmt::print("note: {}\n", report.note);
}

}  // namespace

void add_convert(CLI::App& app) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert", "Make a run's folder of another program's checkpoint, or the other way round");
  command->footer("FORMAT of --from, which is told by looking where it is not given:\n" +
                  foreign_formats_text());
  // Users of other programs try their names: say more than which values there are.
  const CLI::Validator written(
      [](std::string& kind) -> std::string {
        if (kind == "hf" || kind == "dcp" || kind == "torchtitan") return "";
        return fmt::format("must be hf, dcp or torchtitan, the formats that are written, not '{}'",
                           kind);
      },
      "hf, dcp, torchtitan");
  command->add_option("--from", options->from, "Format of the input; default: told by looking")
      ->check(CLI::IsMember(foreign_format_names()));
  command
      ->add_option(
          "--to", options->to,
          "Export a checkpoint of Trireme in this format: hf (Hugging Face), dcp (a folder "
          "of torch.distributed.checkpoint with Hugging Face's names) or torchtitan (the "
          "same with torchtitan's names of Llama)")
      ->check(written);
  command
      ->add_option("input", options->input,
                   "Folder of another program; with --to that of a checkpoint or run")
      ->required();
  command->add_option("output", options->output, "Folder to write; must not exist or be empty")
      ->required();
  command->add_option(
      "--config", options->config,
      "With --from dcp: what model it is, and how it is trained: a TOML file of Trireme, or a "
      "config.json of Hugging Face; default: the config.json in the folder");
  command
      ->add_option("--dtype", options->dtype,
                   "With --to: element type of all weights; default: each as it is stored")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command
      ->add_option(
          "--weight-files", options->weight_files,
          "With --to hf: safetensors (the default), or bin for pytorch_model.bin as torch.save "
          "writes it")
      ->check(CLI::IsMember({"safetensors", "bin"}));
  command
      ->add_option("--max-file-size", options->max_file_gb,
                   "With --to: largest size of a file of weights, in GB; default: 5")
      ->check(CLI::Range(1e-6, 1e6));
  command->add_option(
      "--set", options->overrides,
      "section.key=value: of the model, where the input's files do not say it, e.g. "
      "model.max_positions=4096; with --to hf of the saved configuration, e.g. "
      "data.tokenizer_model=FILE");
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->callback([options] { stoppable([&] { run_convert(*options); }); });
}

}  // namespace trireme::cli
