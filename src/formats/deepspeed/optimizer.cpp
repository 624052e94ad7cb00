// Reads the states like Megatron's optimizer states, which have the same groups, and names their
// tensors as in ZeRO states.
#include "formats/deepspeed/optimizer.h"

#include "base/error.h"
#include "formats/megatron/names.h"
#include "formats/megatron/optimizer.h"

namespace trireme {
namespace {

// A tensor of one of several files.
struct Gathered {
  WeightEntry entry;
  const WeightFile* file = nullptr;
  const WeightEntry* of = nullptr;
};

class GatheredWeights : public WeightFile {
 public:
  using Owned = std::vector<std::unique_ptr<WeightFile>>;
  GatheredWeights(std::string name, std::vector<Gathered> tensors, Owned owned)
      : WeightFile(std::move(name), entries(tensors)),
        tensors_(std::move(tensors)),
        owned_(std::move(owned)) {}

  void read(const WeightEntry& tensor, std::int64_t begin, std::int64_t end,
            std::byte* dst) const override {
    const Gathered& from = tensors_[position(tensor)];
    from.file->read(*from.of, begin, end, dst);
  }

 private:
  static std::vector<WeightEntry> entries(const std::vector<Gathered>& tensors) {
    std::vector<WeightEntry> out;
    for (const Gathered& tensor : tensors) out.push_back(tensor.entry);
    return out;
  }

  std::vector<Gathered> tensors_;
  Owned owned_;
};

// Collects, for each weight, its entry in `own` or, if there is none, the weight itself.
std::unique_ptr<WeightFile> gather(const std::string& name, const NamedWeights& weights,
                                   GatheredWeights::Owned own) {
  std::vector<Gathered> tensors;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (const WeightEntry& weight : weights[i].file->tensors()) {
      if (is_megatron_buffer(weight.name)) continue;
      const WeightEntry* found = own[i]->find(weight.name);
      Gathered tensor{found ? *found : weight, found ? own[i].get() : weights[i].file,
                      found ? found : &weight};
      tensor.entry.name = weights[i].prefix + weight.name;
      tensors.push_back(std::move(tensor));
    }
  }
  return std::make_unique<GatheredWeights>(name, std::move(tensors), std::move(own));
}

}  // namespace

PlainStates open_plain_states(const std::shared_ptr<const TorchFile>& file,
                              const NamedWeights& weights) {
  std::vector<const WeightFile*> files;
  for (const NamedFile& one : weights) files.push_back(one.file);
  MegatronRankStates found = open_megatron_states(file, files, {});
  PlainStates out{{}, found.left_out};
  if (out.left_out.empty() && found.chunks.empty()) out.left_out = "not all ranks have them";
  if (!out.left_out.empty()) return out;
  out.states.steps = found.steps;
  std::array<GatheredWeights::Owned, 1 + adam_moments> own;
  for (MegatronChunkStates& chunk : found.chunks) {
    own[0].push_back(std::move(chunk.weights));
    for (std::size_t which = 0; which < chunk.moments.size(); ++which)
      own[1 + which].push_back(std::move(chunk.moments[which]));
  }
  out.states.weights = gather(file->name(), weights, std::move(own[0]));
  for (std::size_t which = 0; which < out.states.moments.size(); ++which)
    out.states.moments[which] = gather(file->name(), weights, std::move(own[1 + which]));
  return out;
}

}  // namespace trireme
