// Opens Trireme checkpoints with their reader, and other programs' as `convert` does.
#include "compare/contents.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "formats/conversion.h"
#include "formats/deepspeed/step.h"
#include "formats/training_state.h"
#include "importers/folder/formats.h"
#include "tensors/mapping.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

// A model with its assembler; not movable, since the assembler points into the model.
struct OpenForeign {
  explicit OpenForeign(ForeignModel opened)
      : model(std::move(opened)), tensors(model.mapping, Direction::to_ours, *model.weights) {}

  ForeignModel model;
  TensorAssembler tensors;
};

ForeignModel open_foreign(const fs::path& path, const ForeignOptions& options) {
  const ForeignFormat& format = foreign_format(options.format, path);
  if (format.open_with) return format.open_with(path, options.settings, options.config);
  return format.open(path, options.settings);
}

// Moments of tensors that no optimizer trains (the biases that balance experts) mean nothing, and
// no other program has them.
bool is_unused_moment(std::string_view name) {
  return name.starts_with("optimizer.") && !has_moments(std::string(name));
}

}  // namespace

Contents foreign_contents(const fs::path& path, const ForeignOptions& options) {
  const auto open = std::make_shared<OpenForeign>(open_foreign(path, options));
  Contents contents{.folder = path,
                    .kind = open->model.kind,
                    .note = open->model.note,
                    .model = open->model.model};
  const std::vector<NamedTensor>& ours = open->model.mapping.ours;
  for (std::size_t i = 0; i < ours.size(); ++i)
    contents.tensors.push_back({ours[i].name, open->tensors.dtype(i), ours[i].shape});
  contents.read = [open](std::size_t tensor, std::int64_t begin, std::int64_t end, std::byte* dst) {
    open->tensors.produce(tensor, open->tensors.dtype(tensor), begin, end, dst);
  };
  if (open->model.training) contents.state = state_of(*open->model.training);
  return contents;
}

Contents checkpoint_contents(const fs::path& path) {
  const auto reader = std::make_shared<CheckpointReader>(path);
  const Manifest& manifest = reader->manifest();
  Contents contents{.folder = reader->folder(), .kind = "checkpoint of Trireme"};
  contents.state = manifest.state;
  contents.config = checkpoint_config(reader->folder());
  contents.model = contents.config->model;
  std::vector<StoredTensor> tensors;
  for (const StoredTensor& tensor : manifest.tensors) {
    if (is_unused_moment(tensor.name)) continue;
    contents.tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
    tensors.push_back(tensor);
  }
  contents.read = [reader, tensors = std::move(tensors)](std::size_t tensor, std::int64_t begin,
                                                         std::int64_t end, std::byte* dst) {
    const StoredTensor& stored = tensors[tensor];
    const TargetSlice target{stored.name, stored.dtype, stored.shape,
                             Region::range(stored.shape, begin, end), dst};
    reader->read({&target, 1});
  };
  return contents;
}

Contents open_contents(const fs::path& path, const ForeignOptions& options) {
  // DeepSpeed also writes a file named `latest`.
  if (!is_deepspeed_folder(path) && find_checkpoint(path)) return checkpoint_contents(path);
  return foreign_contents(path, options);
}

}  // namespace trireme
