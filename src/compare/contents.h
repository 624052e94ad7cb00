// What a checkpoint of any format holds, under our names: the same view of one of ours and of a
// folder of another program.
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
  std::string note;   // what the reader of another program's folder has to say, or ""
  ModelConfig model;  // resolved
  std::vector<HeldTensor> tensors;
  // Reads elements [begin, end) of a tensor of the list, of its type. One thread at a time.
  std::function<void(std::size_t tensor, std::int64_t begin, std::int64_t end, std::byte* dst)>
      read;
  // The position of the run; none where only weights are held.
  std::optional<CheckpointState> state;
  // Of a checkpoint of ours: the whole of its configuration. A folder of another program says of
  // its position only what is in `state`.
  std::optional<Config> config;
};

// What a folder of another program does not say itself, as `trireme convert` takes it.
struct ForeignOptions {
  std::string format;  // "": detected
  ModelSettings settings;
  fs::path config;
};

// The checkpoint that a path leads to: a run's folder, one of checkpoints, of a step, or of any
// format that `trireme convert` reads. Refused (exit code 2): everything else, and options that the
// format does not take.
Contents open_contents(const fs::path& path, const ForeignOptions& options = {});

// The same where it is known whose the checkpoint is.
Contents checkpoint_contents(const fs::path& path);
Contents foreign_contents(const fs::path& path, const ForeignOptions& options);

}  // namespace trireme
