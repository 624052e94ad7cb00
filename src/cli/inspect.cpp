// `trireme inspect`: lists the contents of a checkpoint, a safetensors file or an indexed dataset,
// and says why it is not sound where it is not.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "cli/commands.h"
#include "data/indexed_dataset.h"
#include "interop/foreign.h"
#include "interop/safetensors.h"
#include "interop/tensor_stats.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string path;
  bool tensors = false;
  bool stats = false;
  bool no_verify = false;
  bool as_json = false;
};

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    fail("cannot write to standard output");
  }
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  for (; value >= 999.5 && unit < 5; ++unit) value /= 1000;
  return fmt::format("{:.3g} {}", value, units[unit]);
}

// One line of the table of tensors.
struct Row {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::optional<TensorStats> stats;
};

Json to_json(const Row& row) {
  Json json{{"name", row.name}, {"dtype", row.type}, {"shape", row.shape}, {"bytes", row.bytes}};
  if (row.stats) {
    json.update({{"min", row.stats->min()},
                 {"max", row.stats->max()},
                 {"mean", row.stats->mean()},
                 {"nan", row.stats->nans()},
                 {"inf", row.stats->infinities()}});
  }
  return json;
}

std::string table(const std::vector<Row>& rows, bool stats) {
  std::size_t name_width = 4, shape_width = 5;
  std::vector<std::string> shapes;
  for (const Row& row : rows) {
    shapes.push_back(Json(row.shape).dump());
    name_width = std::max(name_width, row.name.size());
    shape_width = std::max(shape_width, shapes.back().size());
  }
  std::string out = fmt::format("{:{}}  {:8}  {:{}}  {:>8}", "name", name_width, "type", "shape",
                                shape_width, "size");
  if (stats) {
    out +=
        fmt::format("  {:>11}  {:>11}  {:>11}  {:>6}  {:>6}", "min", "max", "mean", "nan", "inf");
  }
  out += "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out += fmt::format("{:{}}  {:8}  {:{}}  {:>8}", row.name, name_width, row.type, shapes[i],
                       shape_width, human_bytes(row.bytes));
    if (row.stats) {
      out += fmt::format("  {:11.4g}  {:11.4g}  {:11.4g}  {:6}  {:6}", row.stats->min(),
                         row.stats->max(), row.stats->mean(), row.stats->nans(),
                         row.stats->infinities());
    }
    out += "\n";
  }
  return out;
}

void report(const InspectOptions& options, const std::string& text, Json json,
            const std::vector<Row>& rows) {
  if (options.as_json) {
    if (options.tensors) {
      Json& list = json["tensors"] = Json::array();
      for (const Row& row : rows) list.push_back(to_json(row));
    }
    print(json.dump() + "\n");
    return;
  }
  print(text + (options.tensors ? "\n" + table(rows, options.stats) : ""));
}

// Reads a tensor in pieces, however large it is.
TensorStats stats_of(CheckpointReader& reader, const StoredTensor& tensor) {
  constexpr std::int64_t piece = std::int64_t{16} << 20;
  const std::int64_t count = tensor.shape.count();
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>(std::min(piece, count) * size_of(tensor.dtype)));
  TensorStats stats;
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const std::int64_t end = std::min(count, begin + piece);
    const TargetSlice target{tensor.name, tensor.dtype, tensor.shape,
                             Region::range(tensor.shape, begin, end), memory.get()};
    reader.read({&target, 1});
    stats.add(tensor.dtype, memory.get(), end - begin);
  }
  return stats;
}

void inspect_checkpoint(const InspectOptions& options) {
  CheckpointReader reader(options.path);
  const Manifest& manifest = reader.manifest();
  const CheckpointState& state = reader.state();
  if (!options.no_verify) reader.verify();
  std::vector<Row> rows;
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : manifest.tensors) {
    rows.push_back({tensor.name,
                    std::string(name_of(tensor.dtype)),
                    {tensor.shape.begin(), tensor.shape.end()},
                    static_cast<std::uint64_t>(tensor.bytes())});
    if (options.stats) rows.back().stats = stats_of(reader, tensor);
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
                     options.no_verify ? "checksums not checked" : "all checksums are right"),
         json, rows);
}

void inspect_safetensors(const InspectOptions& options) {
  const SafetensorsFile file(options.path);
  std::vector<Row> rows;
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
                  "sequences have {} to {}\n",
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

void inspect(const InspectOptions& options) {
  const fs::path path = options.path;
  if (fs::is_directory(path)) return inspect_checkpoint(options);
  if (path.extension() == ".safetensors") return inspect_safetensors(options);
  if (fs::exists(dataset_prefix(options.path) + ".idx")) return inspect_dataset(options);
  if (fs::exists(path)) {
    const std::string foreign = describe_foreign(path);
    fail_input(
        "'{}' is not the folder of a checkpoint or run, nor a .safetensors file, nor the prefix of "
        "an "
        "indexed dataset{}{}",
        options.path, foreign.empty() ? "" : ": ", foreign);
  }
  fail_input("'{}' does not exist, and neither does '{}.idx'", options.path, options.path);
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand(
      "inspect", "List the contents of a checkpoint, a safetensors file or an indexed dataset");
  command
      ->add_option("path", options->path,
                   "Folder of a checkpoint or a run, .safetensors file, or prefix of .bin/.idx")
      ->required();
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command->add_flag("--stats", options->stats,
                    "Minimum, maximum, mean, NaNs and infinities of every tensor");
  command->add_flag("--no-verify", options->no_verify,
                    "Do not read the shards of a checkpoint to check their checksums");
  command->add_flag("--json", options->as_json, "Print one JSON object");
  command->callback([options] {
    options->tensors = options->tensors || options->stats;
    inspect(*options);
  });
}

}  // namespace trireme::cli
