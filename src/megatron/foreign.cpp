// Checkpoints of other programs by the names of their files.
#include "megatron/foreign.h"

#include <fmt/format.h>

namespace trireme::megatron {
namespace {

constexpr int kMostEntries = 10'000;

std::string program_of(const std::string& name) {
  if (name == "latest_checkpointed_iteration.txt" || name.starts_with("iter_0")) return "Megatron";
  if (name.starts_with("global_step") || name.starts_with("mp_rank_") || name == "zero_to_fp32.py")
    return "DeepSpeed";
  if (name.starts_with("pytorch_model") || name == "model.safetensors.index.json" ||
      name == "model.safetensors")
    return "Hugging Face";
  return "";
}

}  // namespace

std::string foreign_checkpoint(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "checkpoints", error) || fs::exists(folder / "manifest.json", error))
    return "";
  int entries = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (++entries > kMostEntries) break;
    const std::string name = entry.path().filename();
    const std::string program = program_of(name);
    if (!program.empty()) return fmt::format("a checkpoint of {} ({})", program, name);
  }
  return "";
}

}  // namespace trireme::megatron
