// Contents of a checkpoint of any format under our names: a common view of Trireme checkpoints and
// of other programs' folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/shape.h"
#include "checkpoint/manifest.h"
#include "config/config.h"
#include "formats/foreign_model.h"

namespace trireme {

struct HeldTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

struct Contents {
  fs::path folder;
  std::string kind;   // "checkpoint of Trireme", "LlamaForCausalLM"
  std::string note;   // a note of the foreign format's reader, or ""
  ModelConfig model;  // resolved
  std::vector<HeldTensor> tensors;
  // Reads elements [begin, end) of a tensor in the list, in its type. Not thread-safe.
  std::function<void(std::size_t tensor, std::int64_t begin, std::int64_t end, std::byte* dst)>
      read;
  // The run's position; nullopt if the checkpoint has only weights.
  std::optional<CheckpointState> state;
  // For Trireme checkpoints: the complete configuration. Another program's folder has only the
  // position in `state`.
  std::optional<Config> config;
};

// Information missing in another program's folder, as `trireme convert` accepts it.
struct ForeignOptions {
  std::string format;  // "": detected
  ModelSettings settings;
  fs::path config;
};

// Opens a checkpoint: a run's folder, a folder of checkpoints or of a step, or any format that
// `trireme convert` reads. Refused (exit code 2): everything else, and options that do not apply to
// the format.
Contents open_contents(const fs::path& path, const ForeignOptions& options = {});

// Same, if the kind of checkpoint is known. Of a checkpoint of Trireme, moments of tensors that are
// not trained are left out.
Contents checkpoint_contents(const fs::path& path);
Contents foreign_contents(const fs::path& path, const ForeignOptions& options);

}  // namespace trireme
