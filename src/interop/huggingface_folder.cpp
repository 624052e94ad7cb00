// Reads parts of tensors; writes file after file in blocks.
#include "interop/huggingface_folder.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "interop/cast.h"
#include "interop/foreign.h"
#include "interop/safetensors_writer.h"

namespace trireme {
namespace {

constexpr const char* single_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

bool is_plain_name(const std::string& file) {
  return file.ends_with(".safetensors") && file.find('/') == std::string::npos;
}

bool has_shape(const SafetensorsEntry& entry, const Shape& shape) {
  return std::ranges::equal(entry.shape, shape);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return nlohmann::json(shape).dump();
}

const char* torch_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "float64";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    default:
      return "float32";
  }
}

// The tensors to write and their element types.
struct Weights {
  const TensorAssembler& assembler;
  std::optional<DType> dtype_of_all;

  std::size_t count() const { return assembler.targets().size(); }
  const NamedTensor& tensor(std::size_t i) const { return assembler.targets()[i]; }
  DType dtype(std::size_t i) const { return dtype_of_all.value_or(assembler.dtype(i)); }
  std::int64_t bytes(std::size_t i) const { return tensor(i).shape.count() * size_of(dtype(i)); }

  // The type of most elements, which config.json gives as the type of the model.
  DType main_dtype() const {
    std::map<DType, std::int64_t> elements;
    for (std::size_t i = 0; i < count(); ++i) elements[dtype(i)] += tensor(i).shape.count();
    return std::ranges::max_element(elements, {}, [](const auto& one) { return one.second; })
        ->first;
  }
};

// The tensors of each file, in order.
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

void write_file(const fs::path& path, const std::vector<std::size_t>& targets,
                const Weights& weights) {
  std::vector<SafetensorsTensor> entries;
  for (const std::size_t target : targets) {
    const NamedTensor& tensor = weights.tensor(target);
    entries.push_back(
        {tensor.name, weights.dtype(target), {tensor.shape.begin(), tensor.shape.end()}});
  }
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
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

void write_weights(const fs::path& folder, const Weights& weights, std::int64_t max_file_bytes) {
  const auto files = split_into_files(weights, max_file_bytes);
  if (files.size() == 1) {
    write_file(folder / single_file, files[0], weights);
    return;
  }
  std::map<std::string, std::string> file_of;
  std::int64_t elements = 0, bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = fmt::format("model-{:05d}-of-{:05d}.safetensors", i + 1, files.size());
    write_file(folder / name, files[i], weights);
    for (const std::size_t target : files[i]) {
      file_of[weights.tensor(target).name] = name;
      elements += weights.tensor(target).shape.count();
      bytes += weights.bytes(target);
    }
  }
  const nlohmann::ordered_json index{
      {"metadata", {{"total_parameters", elements}, {"total_size", bytes}}},
      {"weight_map", file_of}};
  write_file_durably(folder / index_file, index.dump(2) + "\n");
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(const fs::path& folder, const HuggingFaceModel& model)
    : folder_(folder) {
  // Where both are there, transformers reads the single file too.
  if (fs::exists(folder / single_file)) {
    files_.push_back(std::make_unique<OpenFile>(folder / single_file));
  } else if (fs::exists(folder / index_file)) {
    open_index(folder / index_file);
  } else {
    const std::string foreign = describe_foreign(folder);
    fail_input("'{}' has neither {} nor {}{}{}", folder.string(), single_file, index_file,
               foreign.empty() ? "" : "; ", foreign);
  }
  collect(model);
}

void HuggingFaceWeights::open_index(const fs::path& index) {
  const auto json = parse_json(read_file(index, max_safetensors_header), index.string());
  const auto file_of = json.is_object() ? json.find("weight_map") : json.end();
  if (file_of == json.end() || !file_of->is_object()) {
    fail_input(
        "'{}' is not an index of safetensors files: it lacks an object 'weight_map' that says "
        "which file holds which tensor",
        index.string());
  }
  std::map<std::string, const OpenFile*> opened;
  for (const auto& [tensor, name] : file_of->items()) {
    if (!name.is_string()) {
      fail_input("'{}': weight_map: '{}' is {}, not the name of a file", index.string(), tensor,
                 json_shown(name));
    }
    const auto file = name.get<std::string>();
    if (!is_plain_name(file)) {
      fail_input("'{}': '{}' is not the name of a safetensors file in the same folder",
                 index.string(), file);
    }
    const OpenFile*& place = opened[file];
    if (!place) {
      files_.push_back(std::make_unique<OpenFile>(folder_ / file));
      place = files_.back().get();
    }
    if (!place->header.find(tensor)) {
      fail_input("'{}' says that '{}' holds '{}', but it does not", index.string(), file, tensor);
    }
  }
}

void HuggingFaceWeights::collect(const HuggingFaceModel& model) {
  std::set<std::string> wanted;
  for (const NamedTensor& tensor : huggingface_mapping(model).theirs) wanted.insert(tensor.name);
  std::vector<std::pair<Place, std::string>> copies;
  for (const auto& file : files_) {
    for (const SafetensorsEntry& entry : file->header.tensors()) {
      const std::string name = canonical_huggingface_name(model.kind, entry.name);
      if (is_huggingface_buffer(model.kind, name)) continue;
      if (auto original = tied_huggingface_tensor(model, name); !original.empty()) {
        copies.emplace_back(Place{file.get(), &entry}, std::move(original));
        continue;
      }
      if (!wanted.contains(name)) {
        fail_input(
            "'{}' holds the tensor '{}' {}, which a model with this config.json does not have; "
            "nothing is left out without a word",
            file->header.path().string(), entry.name, shape_text(entry.shape));
      }
      if (!places_.emplace(name, Place{file.get(), &entry}).second) {
        fail_input("'{}' holds the tensor '{}' a second time", file->header.path().string(),
                   entry.name);
      }
    }
  }
  // Of tied weights either may be the one that was stored.
  for (const auto& [copy, original] : copies) {
    if (!places_.emplace(original, copy).second) check_copy(copy, original);
  }
}

// Versions of transformers differ in which of the two they use, so the two must be equal.
void HuggingFaceWeights::check_copy(const Place& copy, const std::string& original) const {
  const auto& [file, entry] = at(original);
  bool same = entry->type == copy.entry->type && entry->shape == copy.entry->shape;
  constexpr std::uint64_t block = std::uint64_t{4} << 20;
  std::vector<std::byte> one(block), other(block);
  for (std::uint64_t done = 0; same && done < entry->bytes(); done += block) {
    const auto count = static_cast<std::size_t>(std::min(block, entry->bytes() - done));
    file->data.read_at(entry->begin + done, one.data(), count);
    copy.file->data.read_at(copy.entry->begin + done, other.data(), count);
    same = std::memcmp(one.data(), other.data(), count) == 0;
  }
  if (same) return;
  fail_input(
      "'{}': '{}' differs from '{}', of which it should be a copy (tie_word_embeddings in "
      "config.json, or its default, says so): set tie_word_embeddings to false there if the model "
      "has both, or remove the one that it does not use",
      copy.file->header.path().string(), copy.entry->name, entry->name);
}

const HuggingFaceWeights::Place& HuggingFaceWeights::at(const std::string& name) const {
  const auto it = places_.find(name);
  if (it == places_.end()) fail_input("'{}' has no tensor '{}'", folder_.string(), name);
  return it->second;
}

DType HuggingFaceWeights::check(const std::string& name, const Shape& shape) const {
  const auto& [file, entry] = at(name);
  if (!has_shape(*entry, shape)) {
    fail_input("'{}': tensor '{}' has the shape {}, but its config.json says {}",
               file->header.path().string(), entry->name, shape_text(entry->shape), shape.text());
  }
  if (!entry->dtype || !can_cast(*entry->dtype, DType::f32)) {
    fail_input("'{}': tensor '{}' is {}; supported are F64, F32, BF16 and F16",
               file->header.path().string(), entry->name, entry->type);
  }
  return *entry->dtype;
}

void HuggingFaceWeights::read(const std::string& name, const Rectangle& part, std::byte* dst) {
  const auto& [file, entry] = at(name);
  const std::int64_t element = size_of(*entry->dtype);
  const std::int64_t width = entry->shape.size() < 2 ? 1 : entry->shape.back();
  // Whole rows lie one after the other.
  const bool at_once = part.columns == width;
  const std::int64_t runs = at_once ? 1 : part.rows;
  const auto run_bytes =
      static_cast<std::size_t>((at_once ? part.rows : 1) * part.columns * element);
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::int64_t from = ((part.row + i) * width + part.column) * element;
    file->data.read_at(entry->begin + static_cast<std::uint64_t>(from),
                       dst + i * static_cast<std::int64_t>(run_bytes), run_bytes);
  }
}

void write_huggingface_folder(const fs::path& folder, const HuggingFaceExport& what,
                              const TensorAssembler& assembler) {
  const Weights weights{assembler, what.dtype};
  write_weights(folder, weights, what.max_file_bytes);
  write_file_durably(folder / "generation_config.json",
                     huggingface_generation_text(what.model.tokens));
  write_file_durably(folder / "config.json",
                     huggingface_config_text(what.model, torch_dtype(weights.main_dtype())));
}

}  // namespace trireme
