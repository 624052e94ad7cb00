// A Hugging Face folder's weights: one file or shards with an index, of safetensors or torch.save.
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

// All files of weights: one, or those that an index names; none where neither is there. Refused
// (exit code 2): an index that contradicts its files or leaves the folder, files that are missing,
// a tensor that two files hold and that differs between them.
WeightFiles open_huggingface_weights(const fs::path& folder);

// Takes the sentence-order head from a BERT whose files have none. Returns a note, or "".
std::string fit_to_files(HuggingFaceModel& model, const WeightFiles& files);

// Finds the weights of files by their canonical names. Refused (exit code 2): a folder
// without files of weights, an index that contradicts its files or leaves the folder, tensors that
// the model does not have, copies of tied weights that differ from them. Several threads may read
// at once.
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

// What to write.
struct HuggingFaceExport {
  HuggingFaceModel model;
  std::optional<DType> dtype;                   // of all tensors; none: as their sources
  std::int64_t max_file_bytes = 5'000'000'000;  // a file holds more only if one tensor does
  HuggingFaceFiles files = HuggingFaceFiles::safetensors;
};

// Writes the weights that `assembler` makes, config.json and, where it is not there yet,
// generation_config.json into `folder`, which must exist. One file of weights, or several with an
// index. config.json comes last: a folder without it is not complete. Memory: a few rows of a
// tensor at a time.
void write_huggingface_folder(const fs::path& folder, const HuggingFaceExport& what,
                              const TensorAssembler& assembler);

}  // namespace trireme
