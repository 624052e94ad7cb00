// Weights of a Hugging Face folder: one file or indexed shards, in safetensors or torch.save.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/conversion.h"
#include "formats/huggingface/mxfp4.h"
#include "formats/huggingface/names.h"
#include "formats/weight_file.h"

namespace trireme {

using WeightFiles = std::vector<std::unique_ptr<WeightFile>>;

// Opens all weight files: a single one, or those named in an index; empty if there is neither.
// Refused (exit code 2): an index that contradicts its files or leaves the folder, missing files, a
// tensor that differs between two files.
WeightFiles open_huggingface_weights(const fs::path& folder);

// Removes the sentence-order head from a BERT whose files lack it. Returns a note, or "".
std::string fit_to_files(HuggingFaceModel& model, const WeightFiles& files);

// Finds weights by their canonical names. Refused (exit code 2): a folder without weight
// files, an index that contradicts its files or leaves the folder, tensors that the
// model does not have, copies of tied weights that differ from them. Thread-safe for
// reading.
class HuggingFaceWeights : public TensorSource {
 public:
  HuggingFaceWeights(const fs::path& folder, WeightFiles files, const HuggingFaceModel& model);

  DType check(const std::string& name, const Shape& shape) const override;
  void read(const std::string& name, const Rectangle& part, std::byte* dst) override;
  ExpertStorage experts() const { return experts_; }

 private:
  struct Place {
    const WeightFile* file;
    const WeightEntry* entry;
  };
  void collect(const HuggingFaceModel& model);
  // Keeps the half of a weight in MXFP4, if the tensor is one.
  bool take_mxfp4(const std::set<std::string>& wanted, const std::string& name, const Place& place);
  void add(const std::string& name, const Place& place);
  void check_copy(const Place& copy, const std::string& original) const;
  const Place& at(const std::string& name) const;

  fs::path folder_;
  WeightFiles files_;
  ExpertStorage experts_ = ExpertStorage::apart;
  std::map<std::string, Place> places_;       // by canonical name
  std::map<std::string, Mxfp4Weight> mxfp4_;  // the same
};

// Options for writing a Hugging Face folder.
struct HuggingFaceExport {
  HuggingFaceModel model;
  std::optional<DType> dtype;                   // of all tensors; nullopt: as in their sources
  std::int64_t max_file_bytes = 5'000'000'000;  // exceeded only by a single larger tensor
  HuggingFaceFiles files = HuggingFaceFiles::safetensors;
};

// Writes the weights produced by `assembler`, config.json and, if missing, generation_config.json
// into `folder`, which must exist. Weights go to one file, or to several with an index.
// config.json is written last: without it the folder is incomplete. Memory: a few rows of a tensor
// at a time.
void write_huggingface_folder(const fs::path& folder, const HuggingFaceExport& what,
                              const TensorAssembler& assembler);

}  // namespace trireme
