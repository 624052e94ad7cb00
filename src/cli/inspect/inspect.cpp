// `trireme inspect`: lists the contents of a checkpoint, a weight file or an indexed dataset, and
// reports damage.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "checkpoint/foreign.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "cli/commands.h"
#include "cli/inspect/report.h"
#include "data/indexed_dataset.h"
#include "formats/dcp/folder.h"
#include "formats/dcp/model.h"
#include "formats/deepspeed/step.h"
#include "formats/foreign_model.h"
#include "formats/megatron/step.h"
#include "formats/megatron/torch_dist_folder.h"
#include "formats/torch/file.h"
#include "tensors/safetensors.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

void inspect_checkpoint(const InspectOptions& options) {
  CheckpointReader reader(options.path);
  const Manifest& manifest = reader.manifest();
  const CheckpointState& state = reader.state();
  if (!options.no_verify) reader.verify();
  std::vector<InspectRow> rows;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : manifest.tensors) {
    rows.push_back({tensor.name,
                    std::string(name_of(tensor.dtype)),
                    {tensor.shape.begin(), tensor.shape.end()},
                    static_cast<std::uint64_t>(tensor.bytes())});
    if (options.stats) {
      add_stats(rows.back(), tensor.dtype, tensor.shape.count(),
                [&](std::int64_t begin, std::int64_t end, std::byte* dst) {
                  const TargetSlice target{tensor.name, tensor.dtype, tensor.shape,
                                           Region::range(tensor.shape, begin, end), dst};
                  reader.read({&target, 1});
                });
    }
    elements += tensor.shape.count();
    bytes += rows.back().bytes;
  }
  const Json json{{"kind", "checkpoint"},
                  {"path", reader.folder().string()},
                  {"program", manifest.program},
                  {"verified", !options.no_verify},
                  {"step", state.step},
                  {"consumed_samples", state.consumed_samples},
                  {"consumed_tokens", state.consumed_tokens},
                  {"counters", state.counters},
                  {"numbers", state.numbers},
                  {"texts", state.texts},
                  {"shards", manifest.shards.size()},
                  {"tensor_count", rows.size()},
                  {"elements", elements},
                  {"bytes", bytes},
                  {"config_toml", state.config_toml}};
  report(options,
         fmt::format("checkpoint {}, written by {}\n"
                     "step {}, {} and {} consumed\n"
                     "{}, {}, {} in {}; {}\n",
                     reader.folder().string(), manifest.program, state.step,
                     counted(state.consumed_samples, "sample"),
                     counted(state.consumed_tokens, "token"), counted(rows.size(), "tensor"),
                     counted(elements, "element"), human_bytes(bytes),
                     counted(manifest.shards.size(), "shard"),
                     options.no_verify ? "checksums not checked" : "all checksums are correct"),
         json, rows);
}

void inspect_safetensors(const InspectOptions& options) {
  const SafetensorsFile file(options.path);
  std::vector<InspectRow> rows;
  for (const SafetensorsEntry& entry : file.tensors()) {
    rows.push_back({entry.name, std::string(entry.type), entry.shape, entry.bytes()});
    if (options.stats && entry.dtype) {
      const auto count = static_cast<std::int64_t>(entry.bytes()) / size_of(*entry.dtype);
      rows.back().stats.emplace().add(*entry.dtype, file.bytes(entry).data(), count);
    }
  }
  std::string text = fmt::format("safetensors file {}\n{}, {}\n", options.path,
                                 counted(rows.size(), "tensor"), human_bytes(file.size()));
  for (const auto& [key, value] : file.header().metadata)
    text += fmt::format("{} = {}\n", key, value);
  report(options, text,
         Json{{"kind", "safetensors"},
              {"path", options.path},
              {"metadata", file.header().metadata},
              {"tensor_count", rows.size()},
              {"bytes", file.size()}},
         rows);
}

void inspect_dataset(const InspectOptions& options) {
  const IndexedDataset data(options.path);
  std::int64_t shortest = 0, longest = 0;
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    shortest = i == 0 ? data.length(i) : std::min(shortest, data.length(i));
    longest = std::max(longest, data.length(i));
  }
  report(
      options,
      fmt::format("indexed dataset {} ({} tokens)\n"
                  "{}, {}, {}, {}\n"
                  "sequence length: {} to {}\n",
                  data.prefix(), name_of(data.token_type()), counted(data.documents(), "document"),
                  counted(data.sequences(), "sequence"), counted(data.tokens(), "token"),
                  human_bytes(data.bin_bytes()), shortest, counted(longest, "token")),
      Json{{"kind", "dataset"},
           {"path", data.prefix()},
           {"token_type", name_of(data.token_type())},
           {"documents", data.documents()},
           {"sequences", data.sequences()},
           {"tokens", data.tokens()},
           {"bytes", data.bin_bytes()},
           {"shortest_sequence", shortest},
           {"longest_sequence", longest}},
      {});
}

// The step folder of another program's run that `trireme convert` would read; "" if the folder is
// not such a run.
fs::path step_of_others(const fs::path& run) {
  fs::path step;
  if (is_deepspeed_folder(run)) {
    step = deepspeed_step_folder(run);
  } else if (is_torch_dist_folder(run) || is_megatron_folder(run)) {
    step = megatron_step_folder(run);
  }
  if (const SplitDcpFolder split = find_split_dcp_folder(run); !split.model.empty()) {
    fail_input("'{}' contains a model in '{}'{}: give one of these folders", run.string(),
               split.model.string(),
               split.optimizer.empty()
                   ? ""
                   : fmt::format(" and its optimizer states in '{}'", split.optimizer.string()));
  }
  return step == run ? fs::path() : step;
}

void inspect(const InspectOptions& options) {
  const fs::path path = options.path;
  if (fs::is_directory(path)) {
    if (is_dcp_folder(path)) return inspect_dcp(options);
    if (!is_deepspeed_folder(path) && find_checkpoint(path)) return inspect_checkpoint(options);
    if (inspect_weights(options)) return;
    if (const fs::path step = step_of_others(path); !step.empty()) {
      InspectOptions inner = options;
      inner.path = step.string();
      return inspect(inner);
    }
    return inspect_checkpoint(options);
  }
  if (path.extension() == ".safetensors") return inspect_safetensors(options);
  if (fs::is_regular_file(path) && is_torch_file(path)) return inspect_torch(options);
  if (fs::exists(dataset_prefix(options.path) + ".idx")) return inspect_dataset(options);
  if (fs::exists(path)) {
    const std::string foreign = describe_foreign(path);
    fail_input(
        "'{}' is not the folder of a checkpoint or run, a .safetensors file, a torch.save file, or "
        "the prefix of an indexed dataset{}{}",
        options.path, foreign.empty() ? "" : ": ", foreign);
  }
  fail_input("'{}' does not exist, and neither does '{}.idx'", options.path, options.path);
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "List the contents of a checkpoint, a weight file or an indexed dataset");
  command
      ->add_option(
          "path", options->path,
          "Folder of a checkpoint or run, folder of torch.distributed.checkpoint, Hugging Face, "
          "Meta's Llama, Megatron or DeepSpeed, .safetensors file, torch.save file (.pt, .pth, "
          ".bin), or prefix of .bin/.idx")
      ->required();
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command->add_flag("--stats", options->stats,
                    "Minimum, maximum, mean, NaNs and infinities of every tensor");
  command->add_flag(
      "--no-verify", options->no_verify,
      "Do not verify checksums, which requires reading the shards of a checkpoint or the tensors "
      "of torch.save files");
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->callback([options] {
    options->tensors = options->tensors || options->stats;
    inspect(*options);
  });
}

}  // namespace trireme::cli
