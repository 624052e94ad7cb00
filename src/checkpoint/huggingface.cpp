// Wires the tables of interop/ to the reader and the writer of checkpoints.
#include "checkpoint/huggingface.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "interop/huggingface_folder.h"
#include "interop/huggingface_names.h"
#include "interop/huggingface_tokenizer.h"

namespace trireme {
namespace {

// Checkpoints as a source of rows. One thread at a time.
class CheckpointSource : public TensorSource {
 public:
  CheckpointSource(CheckpointReader& reader, const ExportOptions& options)
      : reader_(reader), options_(options) {}

  DType check(const std::string& name, const Shape& shape) const override {
    const StoredTensor* tensor = reader_.find(name);
    if (!tensor) fail_input("checkpoint '{}' has no tensor '{}'", reader_.folder().string(), name);
    if (!(tensor->shape == shape)) {
      fail_input("checkpoint '{}': tensor '{}' has the shape {}, but its configuration gives {}",
                 reader_.folder().string(), name, tensor->shape.text(), shape.text());
    }
    return tensor->dtype;
  }

  void read(const std::string& name, const Rectangle& part, std::byte* dst) override {
    const StoredTensor& tensor = *reader_.find(name);
    if (tensor.bytes() > max_kept_bytes) return read_part(tensor, part, dst);
    if (kept_ != name) {
      kept_.clear();
      memory_.resize(static_cast<std::size_t>(tensor.bytes()));
      read_region(tensor, Region::whole(tensor.shape), memory_.data());
      kept_ = name;
    }
    const std::int64_t element = size_of(tensor.dtype);
    for (std::int64_t i = 0; i < part.rows; ++i) {
      const std::int64_t from = (part.row + i) * width(tensor) + part.column;
      std::memcpy(dst + i * part.columns * element, memory_.data() + from * element,
                  static_cast<std::size_t>(part.columns * element));
    }
  }

 private:
  // Tensors up to this size are read as a whole and kept until another is asked for: their parts
  // are asked for one after the other, and each may be much smaller than the blocks that are
  // checked.
  static constexpr std::int64_t max_kept_bytes = std::int64_t{256} << 20;

  static std::int64_t width(const StoredTensor& tensor) {
    return tensor.shape.rank() < 2 ? 1 : tensor.shape.back();
  }
  void read_part(const StoredTensor& tensor, const Rectangle& part, std::byte* dst) {
    if (tensor.shape.rank() == 2) {
      return read_region(
          tensor, Region::rectangle({part.row, part.column}, {part.rows, part.columns}), dst);
    }
    TRIREME_CHECK(part.columns == width(tensor));
    read_region(
        tensor,
        Region::range(tensor.shape, part.row * part.columns, (part.row + part.rows) * part.columns),
        dst);
  }
  void read_region(const StoredTensor& tensor, const Region& region, std::byte* dst) {
    if (options_.stopped.stop_requested()) fail("the process was told to stop");
    const TargetSlice target{tensor.name, tensor.dtype, tensor.shape, region, dst};
    reader_.read({&target, 1}, {.pool = options_.pool, .progress = options_.progress});
  }

  CheckpointReader& reader_;
  const ExportOptions& options_;
  std::string kept_;
  std::vector<std::byte> memory_;
};

// Special tokens travel in the state of an imported checkpoint.
struct TokenCounter {
  const char* name;
  std::int64_t HuggingFaceTokens::*id;
};
constexpr TokenCounter token_counters[] = {{"bos_token_id", &HuggingFaceTokens::bos},
                                           {"eos_token_id", &HuggingFaceTokens::eos},
                                           {"pad_token_id", &HuggingFaceTokens::pad}};
std::string further_eos_counter(std::size_t i) {
  return fmt::format("eos_token_id.{}", i + 1);
}

void keep_tokens(CheckpointState& state, const HuggingFaceTokens& tokens) {
  for (const auto& [name, id] : token_counters) state.counters[name] = tokens.*id;
  for (std::size_t i = 0; i < tokens.further_eos.size(); ++i) {
    state.counters[further_eos_counter(i)] = tokens.further_eos[i];
  }
}

}  // namespace

HuggingFaceTokens imported_tokens(const CheckpointState& state) {
  HuggingFaceTokens tokens;
  const auto find = [&](const std::string& name) -> std::int64_t {
    const auto it = state.counters.find(name);
    return it == state.counters.end() ? -1 : it->second;
  };
  for (const auto& [name, id] : token_counters) tokens.*id = find(name);
  for (std::size_t i = 0; find(further_eos_counter(i)) >= 0; ++i) {
    tokens.further_eos.push_back(find(further_eos_counter(i)));
  }
  return tokens;
}

namespace {

// Those of the run's tokenizer come first; where it names none, or the same end, the kept ones say
// more.
HuggingFaceTokens tokens_of(const CheckpointState& state, const HuggingFaceTokens& given) {
  HuggingFaceTokens tokens = imported_tokens(state);
  const bool other_end = given.eos >= 0 && given.eos != tokens.eos &&
                         !std::ranges::count(tokens.further_eos, given.eos);
  if (other_end) {
    tokens.eos = given.eos;
    tokens.further_eos = given.further_eos;
  }
  if (given.bos >= 0) tokens.bos = given.bos;
  if (given.pad >= 0) tokens.pad = given.pad;
  return tokens;
}

std::int64_t count_elements(const std::vector<NamedTensor>& tensors) {
  std::int64_t elements = 0;
  for (const NamedTensor& tensor : tensors) elements += tensor.shape.count();
  return elements;
}

const char* precision_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "fp16";
    case DType::f64:
      return "fp64";
    default:
      return "fp32";
  }
}

// The folder of a conversion. If it was new or empty it is so again unless the conversion is kept;
// it may be a mounted volume, so it is not written elsewhere and renamed.
class OutputFolder {
 public:
  explicit OutputFolder(const fs::path& folder) : folder_(folder), existed_(fs::exists(folder)) {
    make_folders(folder);
    kept_ = !fs::is_empty(folder);
  }
  ~OutputFolder() {
    if (kept_) return;
    std::error_code ignored;  // the error that led here says more
    for (fs::directory_iterator it(folder_, ignored), end; !ignored && it != end;
         it.increment(ignored)) {
      fs::remove_all(it->path(), ignored);
    }
    if (!existed_) fs::remove(folder_, ignored);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  void keep() { kept_ = true; }

 private:
  fs::path folder_;
  bool existed_, kept_ = false;
};

}  // namespace

ConversionReport import_huggingface(const fs::path& from, const fs::path& to,
                                    const std::string& program, ThreadPool* pool) {
  return import_model(open_huggingface_folder(from), to, program, pool);
}

ConversionReport import_model(const ForeignModel& model, const fs::path& to,
                              const std::string& program, ThreadPool* pool) {
  if (find_checkpoint(to)) {
    fail_input("'{}' already holds a checkpoint; give another folder", to.string());
  }
  const TensorMapping& mapping = model.mapping;
  const TensorAssembler assembler(mapping, Direction::to_ours, *model.weights);

  OutputFolder output(to);
  const TokenizerFiles tokenizer =
      model.tokenizer ? model.tokenizer(to / "tokenizer") : TokenizerFiles{};
  Config config;
  // As it is, the configuration next to these weights continues training from them.
  config.run.dir = (to / "train").string();
  config.checkpoint.load = to.string();
  config.checkpoint.finetune = true;
  config.run.precision = precision_of(assembler.dtype(0));
  config.model = model.model;
  config.data.tokenizer = tokenizer.type;
  config.data.vocab_file = tokenizer.vocab_file;
  config.data.merge_file = tokenizer.merge_file;
  config.data.tokenizer_model = tokenizer.model_file;
  CheckpointState state;
  state.config_toml = to_toml(config);
  parse_config(state.config_toml, to.string());  // whoever uses the run will read it
  keep_tokens(state, model.tokens);

  std::vector<SourceSlice> slices;
  for (std::size_t i = 0; i < mapping.ours.size(); ++i) {
    const NamedTensor& tensor = mapping.ours[i];
    slices.push_back(
        {tensor.name, assembler.dtype(i), tensor.shape, Region::whole(tensor.shape), nullptr});
  }
  CheckpointWriter writer({to / "checkpoints", program}, state);
  writer.write(slices, pool,
               [&](std::size_t slice, std::int64_t begin, std::int64_t end, std::byte* dst) {
                 assembler.produce(slice, assembler.dtype(slice), begin, end, dst);
               });
  const SaveReport saved = writer.commit();
  std::string note = model.note;
  if (tokenizer.type.empty()) {
    note += fmt::format("{}no tokenizer's files were found", note.empty() ? "" : "; ");
  }
  write_file_durably(to / "config.toml", state.config_toml);
  output.keep();
  return {model.kind, saved.folder, static_cast<std::int64_t>(slices.size()),
          count_elements(mapping.ours), std::move(note)};
}

Config checkpoint_config(const fs::path& checkpoint, const std::vector<std::string>& overrides) {
  const CheckpointReader reader(checkpoint);
  return parse_config(reader.state().config_toml,
                      (reader.folder() / manifest_file).string() + ": config_toml", overrides);
}

ConversionReport export_huggingface(const fs::path& checkpoint, const fs::path& to,
                                    const ExportOptions& options) {
  if (fs::exists(to) && !fs::is_empty(to)) {
    fail_input("'{}' is not an empty folder; give another one", to.string());
  }
  CheckpointReader reader(checkpoint);
  const Config config = checkpoint_config(reader.folder());
  const HuggingFaceModel model{huggingface_kind(config.model), config.model,
                               tokens_of(reader.state(), options.tokens)};
  const TensorMapping mapping = huggingface_mapping(model);
  CheckpointSource source(reader, options);
  const TensorAssembler assembler(mapping, Direction::to_theirs, source);

  OutputFolder output(to);
  std::string note =
      export_huggingface_tokenizer(options.tokenizer, to, config.model.max_positions);
  write_huggingface_folder(to, {model, options.dtype, options.max_file_bytes, options.files},
                           assembler);
  output.keep();
  return {huggingface_class(model.kind), to, static_cast<std::int64_t>(mapping.theirs.size()),
          count_elements(mapping.theirs), std::move(note)};
}

}  // namespace trireme
