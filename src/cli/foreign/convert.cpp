// `trireme convert`: converts checkpoints of other programs to runs, and back.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "base/stop.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "cli/commands.h"
#include "cli/compare/diff_report.h"
#include "compare/comparison.h"
#include "data/configured_tokenizer.h"
#include "formats/deepspeed/step.h"
#include "importers/folder/formats.h"
#include "train/checkpoints/exports.h"

namespace trireme::cli {
namespace {

constexpr int most_ranks = 4096;

struct ConvertOptions {
  std::string from, to, input, output, config, dtype;
  std::optional<double> max_file_gb;
  std::string weight_files, megatron_names, torchtitan_names;
  std::optional<int> tp, pp;
  std::vector<std::string> overrides;
  bool verify = false, as_json = false;
};

// The configuration of a run, with the current paths of its tokenizer's files.
Config run_config(const ConvertOptions& options) {
  const CheckpointReader reader(options.input);
  Config config = checkpoint_config(reader.folder(), options.overrides);
  if (!config.data.tokenizer.empty()) {
    locate_tokenizer(config, checkpoint_config(reader.folder()), run_folder(reader.folder()));
  }
  return config;
}

// An existing file in the output folder might later be mistaken for part of it.
void require_new_folder(const fs::path& folder) {
  if (fs::exists(folder) && (!fs::is_directory(folder) || !fs::is_empty(folder))) {
    fail_input(
        "'{}' already exists and is not an empty folder: give another folder, or remove it if it "
        "is left over from an interrupted conversion",
        folder.string());
  }
}

// Rejects given options that the format does not support.
void refuse_options(const ConvertOptions& options, const WrittenFormat* format) {
  for (const auto& [option, given] : {std::pair{"--weight-files", !options.weight_files.empty()},
                                      {"--max-file-size", options.max_file_gb.has_value()},
                                      {"--tp", options.tp.has_value()},
                                      {"--pp", options.pp.has_value()},
                                      {"--megatron-names", !options.megatron_names.empty()},
                                      {"--torchtitan-names", !options.torchtitan_names.empty()}}) {
    if (given && !(format && format->takes(option)))
      fail_input("{} requires --to {}", option, formats_with(option));
  }
}

ConversionReport import_foreign(const ConvertOptions& options) {
  if (!options.dtype.empty())
    fail_input("--dtype requires --to; the precision of a run is run.precision");
  refuse_options(options, nullptr);
  // DeepSpeed also has a file named `latest`.
  if (!is_deepspeed_folder(options.input) && find_checkpoint(options.input)) {
    fail_input(
        "'{}' is already a checkpoint of Trireme: --to hf exports it as a Hugging Face folder",
        options.input);
  }
  const ForeignFormat& format = foreign_format(options.from, options.input);
  if (!options.config.empty() && !format.open_with) {
    fail_input(
        "--config requires --from dcp or --from deepspeed; files of --from {} describe their model "
        "themselves",
        format.name);
  }
  const ForeignModel model =
      format.open_with ? format.open_with(options.input, options.overrides, options.config)
                       : format.open(options.input, options.overrides);
  return import_model(model, options.output, "trireme convert", &ThreadPool::global());
}

ConversionReport export_to_other(const ConvertOptions& options) {
  if (!options.config.empty()) fail_input("--config requires --from dcp or --from deepspeed");
  const WrittenFormat& format = *find_written_format(options.to);
  refuse_options(options, &format);
  for (const std::string& setting : options.overrides) {
    if (setting.starts_with("data.")) continue;
    fail_input(
        "--set {}: with --to {} the model comes from the checkpoint; only keys of [data] can be "
        "set",
        setting, options.to);
  }
  ExportRequest request{options.input, options.output, run_config(options), {}, {}, {}};
  ExportOptions& how = request.options = export_options(request.config);
  if (options.dtype == "fp32") how.dtype = DType::f32;
  if (options.dtype == "bf16") how.dtype = DType::bf16;
  if (options.dtype == "fp16") how.dtype = DType::f16;
  if (options.max_file_gb)
    how.max_file_bytes = static_cast<std::int64_t>(*options.max_file_gb * 1e9);
  if (options.weight_files == "bin") how.files = HuggingFaceFiles::torch;
  MegatronLayout& layout = request.layout;
  layout.tp = options.tp.value_or(1);
  layout.pp = options.pp.value_or(1);
  if (options.megatron_names == "local") layout.kind = MegatronKind::local;
  if (options.megatron_names == "legacy") layout.kind = MegatronKind::legacy;
  request.torchtitan = options.torchtitan_names == "0.1"   ? DcpNames::torchtitan_0_1
                       : options.torchtitan_names == "0.2" ? DcpNames::torchtitan_0_2
                                                           : DcpNames::torchtitan;
  return format.write(request);
}

ConversionReport convert(const ConvertOptions& options) {
  require_new_folder(options.output);
  if (!options.from.empty() && !options.to.empty()) {
    fail_input(
        "--from and --to are mutually exclusive: --from imports another program's checkpoint as a "
        "run, and --to exports a checkpoint to another program's format");
  }
  return options.to.empty() ? import_foreign(options) : export_to_other(options);
}

// Reads the output like a reader that knows only the folder, and compares.
Comparison verify(const ConvertOptions& options, const ConversionReport& report) {
  const bool is_import = options.to.empty();
  const ForeignOptions foreign{options.from, options.overrides, options.config};
  const Contents input =
      is_import ? foreign_contents(options.input, foreign) : checkpoint_contents(options.input);
  ForeignOptions written;
  // Meta's params.json does not contain it.
  if (options.to == "llama")
    written.settings = {fmt::format("model.max_positions={}", input.model.max_positions)};
  const Contents output =
      is_import ? checkpoint_contents(report.folder) : foreign_contents(report.folder, written);
  Comparison found = compare(input, output, {.rounded = !options.dtype.empty()});
  if (!found.is_equal()) {
    fail("the contents of '{}' differ from those of '{}', so it should not be used: {}",
         options.output, options.input, verdict_text(found));
  }
  return found;
}

void run_convert(const ConvertOptions& options) {
  ConversionReport report = convert(options);
  if (options.verify)
    add_note(report.note, "verified by reading it back: " + verdict_text(verify(options, report)));
  if (options.as_json) {
    const nlohmann::ordered_json json{
        {"model", report.kind},        {"folder", report.folder.string()},
        {"tensors", report.tensors},   {"made_of", report.made_of},
        {"elements", report.elements}, {"note", report.note}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  const std::string made_of =
      report.made_of == report.tensors ? "" : fmt::format(" (from {})", report.made_of);
  fmt::print("{}: {}{}, {}, written to {}\n", report.kind, counted(report.tensors, "tensor"),
             made_of, counted(report.elements, "element"), report.folder.string());
  if (!report.note.empty()) fmt::print("note: {}\n", report.note);
}

}  // namespace

void add_convert(CLI::App& app) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert",
      "Import another program's checkpoint as a run, or export a checkpoint to another "
      "program's format");
  command->footer("FORMAT of --from (detected if omitted):\n" + foreign_formats_text() +
                  "FORMAT of --to:\n" + written_formats_text());
  // Users of other programs try their names: the message explains more than the valid values.
  const CLI::Validator written(
      [](std::string& name) -> std::string {
        if (find_written_format(name)) return "";
        return fmt::format("must be {} (the formats that can be written), not '{}'",
                           written_format_names(), name);
      },
      "FORMAT");
  command->add_option("--from", options->from, "Format of the input; detected if omitted")
      ->check(CLI::IsMember(foreign_format_names()));
  command->add_option("--to", options->to, "Export a checkpoint of Trireme in this format")
      ->check(written);
  command
      ->add_option("input", options->input,
                   "Folder of another program's checkpoint; with --to the folder of a checkpoint "
                   "or run")
      ->required();
  command->add_option("output", options->output, "Folder to write; must not exist or be empty")
      ->required();
  command->add_option(
      "--config", options->config,
      "With --from dcp or --from deepspeed: description of the model and its training: a TOML file "
      "of Trireme or a config.json of Hugging Face; default: the config.json in the folder");
  command
      ->add_option("--dtype", options->dtype,
                   "With --to: data type of all weights; default: the stored type of each")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command
      ->add_option(
          "--weight-files", options->weight_files,
          "With --to hf: safetensors (default), or bin for pytorch_model.bin in torch.save's "
          "format")
      ->check(CLI::IsMember({"safetensors", "bin"}));
  command
      ->add_option("--max-file-size", options->max_file_gb,
                   "With --to hf, dcp or torchtitan: maximum size of a weight file, in GB; "
                   "default: 5")
      ->check(CLI::Range(1e-6, 1e6));
  command
      ->add_option("--tp", options->tp,
                   "With --to megatron or llama: tensor-parallel size, with one file per rank; "
                   "default: 1")
      ->check(CLI::Range(1, most_ranks));
  command
      ->add_option("--pp", options->pp,
                   "With --to megatron: pipeline-parallel size, with equally many layers per "
                   "stage; default: 1")
      ->check(CLI::Range(1, most_ranks));
  command
      ->add_option("--megatron-names", options->megatron_names,
                   "With --to megatron: tensor names, as in Megatron-LM with --transformer-impl "
                   "transformer_engine (the default of both) or local, or with --use-legacy-models "
                   "(legacy)")
      ->check(CLI::IsMember({"transformer_engine", "local", "legacy"}));
  command
      ->add_option("--torchtitan-names", options->torchtitan_names,
                   "With --to torchtitan: tensor names of this release: 0.3 (default), 0.2 "
                   "(attention.wq, output), or 0.1 and older (the same below the key model)")
      ->check(CLI::IsMember({"0.3", "0.2", "0.1"}));
  command->add_option(
      "--set", options->overrides,
      "section.key=value: a setting of the model that the input's files do not contain, e.g. "
      "model.max_positions=4096; with --to hf one of the saved configuration, e.g. "
      "data.tokenizer_model=FILE");
  command->add_flag("--verify", options->verify,
                    "Read the output back and compare it bit by bit with the input, like diff");
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->callback([options] { stoppable([&] { run_convert(*options); }); });
}

}  // namespace trireme::cli
