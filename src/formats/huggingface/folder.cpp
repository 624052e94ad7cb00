// Reads parts of tensors; writes files sequentially in blocks.
#include "formats/huggingface/folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "checkpoint/foreign.h"
#include "formats/torch/writer.h"
#include "tensors/cast.h"
#include "tensors/safetensors.h"
#include "tensors/safetensors_writer.h"

namespace trireme {
namespace {

// Sorted by the lookup order of transformers, which is also the order of HuggingFaceFiles.
struct WeightNames {
  const char *single, *index, *stem, *ending;
};
constexpr WeightNames weight_names[] = {
    {"model.safetensors", "model.safetensors.index.json", "model", ".safetensors"},
    {"pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model", ".bin"},
};

// Whether a weight is that of all experts of a layer, which MXFP4 is read of.
bool is_fused_experts(std::string_view name) {
  return name.ends_with(".mlp.experts.gate_up_proj") || name.ends_with(".mlp.experts.down_proj");
}

bool has_shape(const WeightEntry& entry, const Shape& shape) {
  return std::ranges::equal(entry.shape, shape);
}

const char* torch_dtype(DType dtype) {
  if (dtype == DType::f64) return "float64";
  if (dtype == DType::bf16) return "bfloat16";
  return dtype == DType::f16 ? "float16" : "float32";
}

// The tensors to write, with their element types.
struct Weights {
  const TensorAssembler& assembler;
  std::optional<DType> dtype_of_all;

  std::size_t count() const { return assembler.targets().size(); }
  const NamedTensor& tensor(std::size_t i) const { return assembler.targets()[i]; }
  DType dtype(std::size_t i) const { return dtype_of_all.value_or(assembler.dtype(i)); }
  std::int64_t bytes(std::size_t i) const { return tensor(i).shape.count() * size_of(dtype(i)); }

  // Type of most elements, which config.json states as the model's type.
  DType main_dtype() const {
    std::map<DType, std::int64_t> elements;
    for (std::size_t i = 0; i < count(); ++i) elements[dtype(i)] += tensor(i).shape.count();
    return std::ranges::max_element(elements, {}, [](const auto& one) { return one.second; })
        ->first;
  }
};

// Assigns tensors to files, in order.
std::vector<std::vector<std::size_t>> split_into_files(const Weights& weights,
                                                       std::int64_t max_bytes) {
  std::vector<std::vector<std::size_t>> files(1);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < weights.count(); ++i) {
    const std::int64_t size = weights.bytes(i);
    if (!files.back().empty() && bytes + size > max_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().push_back(i);
    bytes += size;
  }
  return files;
}

// Writes the tensors sequentially in blocks.
template <class Writer>
void fill(Writer& writer, const std::vector<std::size_t>& targets, const Weights& weights) {
  constexpr std::int64_t block_bytes = std::int64_t{4} << 20;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(block_bytes);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const DType dtype = weights.dtype(targets[i]);
    const std::int64_t count = weights.tensor(targets[i]).shape.count();
    const std::int64_t block = block_bytes / size_of(dtype);
    for (std::int64_t begin = 0; begin < count; begin += block) {
      const std::int64_t end = std::min(count, begin + block);
      weights.assembler.produce(targets[i], dtype, begin, end, memory.get());
      writer.write(i, static_cast<std::uint64_t>(begin * size_of(dtype)), memory.get(),
                   static_cast<std::uint64_t>((end - begin) * size_of(dtype)));
    }
  }
  writer.finish();
}

void write_file(const fs::path& path, const std::vector<std::size_t>& targets,
                const Weights& weights, HuggingFaceFiles files) {
  std::vector<SafetensorsTensor> entries;
  TorchDict state;
  for (const std::size_t target : targets) {
    const NamedTensor& tensor = weights.tensor(target);
    const DType dtype = weights.dtype(target);
    const std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    entries.push_back({tensor.name, dtype, shape});
    state.push_back({tensor.name, {TorchTensor{dtype, shape}}});
  }
  if (files == HuggingFaceFiles::torch) {
    TorchWriter writer(path, {std::move(state)});
    return fill(writer, targets, weights);
  }
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  fill(writer, targets, weights);
}

void write_weights(const fs::path& folder, const Weights& weights, const HuggingFaceExport& what) {
  const WeightNames& names = weight_names[static_cast<std::size_t>(what.files)];
  const auto files = split_into_files(weights, what.max_file_bytes);
  if (files.size() == 1) return write_file(folder / names.single, files[0], weights, what.files);
  std::map<std::string, std::string> file_of;
  std::int64_t elements = 0, bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name =
        fmt::format("{}-{:05d}-of-{:05d}{}", names.stem, i + 1, files.size(), names.ending);
    write_file(folder / name, files[i], weights, what.files);
    for (const std::size_t target : files[i]) {
      file_of[weights.tensor(target).name] = name;
      elements += weights.tensor(target).shape.count();
      bytes += weights.bytes(target);
    }
  }
  const nlohmann::ordered_json index{
      {"metadata", {{"total_parameters", elements}, {"total_size", bytes}}},
      {"weight_map", file_of}};
  write_file_durably(folder / names.index, index.dump(2) + "\n");
}

// File name of a tensor in an index, which may begin with "./".
std::string file_in_index(const fs::path& index, const std::string& tensor,
                          const nlohmann::json& name, const std::string& ending) {
  if (!name.is_string()) {
    fail_input("'{}': weight_map: '{}' is {}, not the name of a file", index.string(),
               printable(tensor), json_shown(name));
  }
  const auto given = name.get<std::string>();
  const std::string file = fs::path(given).lexically_normal().string();
  if (!file.ends_with(ending) || file.find('/') != std::string::npos) {
    fail_input("'{}': '{}' is not the name of a {} file in the same folder", index.string(),
               printable(given), ending);
  }
  return file;
}

// All files named in an index, each opened once.
class IndexedFiles {
 public:
  IndexedFiles(const fs::path& index, const std::string& ending) : index_(index), ending_(ending) {
    const auto json = parse_json(read_file(index, max_safetensors_header), index.string());
    const auto file_of = json.is_object() ? json.find("weight_map") : json.end();
    if (file_of == json.end() || !file_of->is_object()) {
      fail_input("'{}' is not a weight index: it has no object 'weight_map' from tensors to files",
                 index.string());
    }
    for (const auto& [tensor, name] : file_of->items()) open(tensor, name);
    for (const auto& file : files_)
      for (const WeightEntry& entry : file->tensors()) check_other(*file, entry);
    for (const auto& [tensor, file] : meant_) {
      if (file->find(tensor)) continue;
      fail_input("according to '{}', '{}' contains '{}', but it does not", index_.string(),
                 file->name(), printable(tensor));
    }
  }

  WeightFiles take() { return std::move(files_); }

 private:
  void open(const std::string& tensor, const nlohmann::json& name) {
    const std::string file = file_in_index(index_, tensor, name, ending_);
    const WeightFile*& place = opened_[file];
    if (!place) {
      const fs::path path = index_.parent_path() / file;
      if (!fs::exists(path)) {
        fail_input(
            "according to '{}', '{}' is in '{}', but that file is missing: copy all files of the "
            "folder",
            index_.string(), printable(tensor), file);
      }
      files_.push_back(open_weight_file(path));
      place = files_.back().get();
    }
    meant_[tensor] = place;
  }

  // The index determines the file of a tensor: another file may also contain it if it is identical,
  // since other programs may read either.
  void check_other(const WeightFile& file, const WeightEntry& entry) const {
    const auto at = meant_.find(entry.name);
    if (at == meant_.end() || at->second == &file) return;
    const WeightFile& meant = *at->second;
    const WeightEntry* other = meant.find(entry.name);
    if (!other) {
      fail_input("according to '{}', '{}' contains '{}', but '{}' does", index_.string(),
                 meant.name(), printable(entry.name), file.name());
    }
    if (same_weights(meant, *other, file, entry)) return;
    fail_input(
        "'{}' is in two files with different values: according to '{}' the one in '{}' applies, "
        "but '{}' contains another, perhaps from an earlier save: copy or save the files again",
        printable(entry.name), index_.string(), meant.name(), file.name());
  }

  const fs::path& index_;
  const std::string& ending_;
  WeightFiles files_;
  std::map<std::string, const WeightFile*> opened_, meant_;  // by file, by tensor
};

}  // namespace

WeightFiles open_huggingface_weights(const fs::path& folder) {
  WeightFiles files;
  for (const WeightNames& names : weight_names) {
    if (!files.empty()) break;
    // If both exist, transformers also reads the single file.
    if (fs::exists(folder / names.single)) {
      files.push_back(open_weight_file(folder / names.single));
    } else if (fs::exists(folder / names.index)) {
      files = IndexedFiles(folder / names.index, names.ending).take();
    }
  }
  return files;
}

std::string fit_to_files(HuggingFaceModel& model, const WeightFiles& files) {
  std::vector<std::string> names;
  for (const auto& file : files)
    for (const WeightEntry& entry : file->tensors())
      names.push_back(canonical_huggingface_name(*model.kind, entry.name));
  return fit_to_names(model, names);
}

HuggingFaceWeights::HuggingFaceWeights(const fs::path& folder, WeightFiles files,
                                       const HuggingFaceModel& model)
    : folder_(folder), files_(std::move(files)) {
  if (files_.empty()) {
    const std::string foreign = describe_incomplete(folder);
    fail_input("'{}' has neither {} nor {}, nor one of them with an index{}{}", folder.string(),
               weight_names[0].single, weight_names[1].single, foreign.empty() ? "" : "; ",
               foreign);
  }
  collect(model);
}

void HuggingFaceWeights::collect(const HuggingFaceModel& model) {
  for (const auto& file : files_) {
    for (const WeightEntry& entry : file->tensors())
      if (entry.name.ends_with(fused_experts_ending)) experts_ = ExpertStorage::fused;
  }
  std::set<std::string> wanted;
  for (const NamedTensor& tensor : huggingface_mapping(model, experts_).theirs)
    wanted.insert(tensor.name);
  std::vector<std::pair<Place, std::string>> copies;
  for (const auto& file : files_) {
    for (const WeightEntry& entry : file->tensors()) {
      const std::string name = canonical_huggingface_name(*model.kind, entry.name);
      if (is_left_out_of_huggingface(model, name)) continue;
      if (auto original = tied_huggingface_tensor(model, name); !original.empty()) {
        copies.emplace_back(Place{file.get(), &entry}, std::move(original));
        continue;
      }
      if (!wanted.contains(name)) {
        if (model.kind->experts.take_turns() && take_mxfp4(wanted, name, {file.get(), &entry}))
          continue;
        fail_input(
            "'{}' contains the tensor '{}' {}, which a model with this config.json does not have; "
            "tensors are never dropped silently",
            file->name(), printable(entry.name), shape_text(entry.shape));
      }
      add(name, {file.get(), &entry});
    }
  }
  // Either of two tied weights may be the one stored.
  for (const auto& [copy, original] : copies) {
    if (!places_.emplace(original, copy).second) check_copy(copy, original);
  }
}

bool HuggingFaceWeights::take_mxfp4(const std::set<std::string>& wanted, const std::string& name,
                                    const Place& place) {
  for (const auto& [ending, part] : {std::pair{mxfp4_blocks_ending, &Mxfp4Weight::blocks},
                                     {mxfp4_scales_ending, &Mxfp4Weight::scales}}) {
    if (!name.ends_with(ending)) continue;
    const std::string whole = name.substr(0, name.size() - ending.size());
    if (!wanted.contains(whole) || !is_fused_experts(whole)) continue;
    mxfp4_[whole].*part = {place.file, place.entry};
    return true;
  }
  return false;
}

// A tensor may occur twice, in two files or with and without a prefix, if identical.
void HuggingFaceWeights::add(const std::string& name, const Place& place) {
  const auto [at, is_new] = places_.emplace(name, place);
  if (is_new) return;
  const auto& [file, entry] = at->second;
  if (same_weights(*file, *entry, *place.file, *place.entry)) return;
  fail_input("'{}' in '{}' and '{}' in '{}' are the same tensor of the model, but differ",
             printable(entry->name), file->name(), printable(place.entry->name),
             place.file->name());
}

// Versions of transformers differ in which of the two they use, so both must be equal.
void HuggingFaceWeights::check_copy(const Place& copy, const std::string& original) const {
  const auto& [file, entry] = at(original);
  if (same_weights(*file, *entry, *copy.file, *copy.entry)) return;
  fail_input(
      "'{}': '{}' differs from '{}', although tie_word_embeddings in config.json (or its default) "
      "makes it a copy: set tie_word_embeddings to false if the model has both, or remove the "
      "unused tensor",
      copy.file->name(), copy.entry->name, entry->name);
}

const HuggingFaceWeights::Place& HuggingFaceWeights::at(const std::string& name) const {
  const auto it = places_.find(name);
  if (it == places_.end()) fail_input("'{}' has no tensor '{}'", folder_.string(), name);
  return it->second;
}

DType HuggingFaceWeights::check(const std::string& name, const Shape& shape) const {
  if (const auto packed = mxfp4_.find(name); packed != mxfp4_.end() && !places_.contains(name)) {
    check_mxfp4(packed->second, name, shape);
    return DType::bf16;
  }
  const auto& [file, entry] = at(name);
  if (!has_shape(*entry, shape)) {
    fail_input("'{}': tensor '{}' has the shape {}, but config.json implies {}", file->name(),
               entry->name, shape_text(entry->shape), shape.text());
  }
  if (!entry->dtype || !can_cast(*entry->dtype, DType::f32)) {
    fail_input("'{}': tensor '{}' is {}; supported are F64, F32, BF16 and F16", file->name(),
               entry->name, entry->type);
  }
  return *entry->dtype;
}

void HuggingFaceWeights::read(const std::string& name, const Rectangle& part, std::byte* dst) {
  if (!places_.contains(name))
    if (const auto packed = mxfp4_.find(name); packed != mxfp4_.end())
      return read_mxfp4(packed->second, part, dst);
  const auto& [file, entry] = at(name);
  const std::int64_t element = size_of(*entry->dtype), width = entry->columns();
  // Whole rows are contiguous.
  const bool at_once = part.columns == width;
  const std::int64_t runs = at_once ? 1 : part.rows;
  const std::int64_t run = (at_once ? part.rows : 1) * part.columns;
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::int64_t from = (part.row + i) * width + part.column;
    file->read(*entry, from, from + run, dst + i * run * element);
  }
}

void write_huggingface_folder(const fs::path& folder, const HuggingFaceExport& what,
                              const TensorAssembler& assembler) {
  const Weights weights{assembler, what.dtype};
  write_weights(folder, weights, what);
  // A generation_config.json copied with the tokenizer is more complete.
  const fs::path generation = folder / "generation_config.json";
  if (!fs::exists(generation))
    write_file_durably(generation, huggingface_generation_text(what.model.tokens));
  write_file_durably(folder / "config.json",
                     huggingface_config_text(what.model, torch_dtype(weights.main_dtype())));
}

}  // namespace trireme
