// Joins tensors that are split across files, as a source of whole tensors.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "formats/weight_file.h"
#include "tensors/mapping.h"

namespace trireme {

// Row permutation between storage and use. Rows are viewed as [..., outer, inner, block] in
// storage, and used as [..., inner, outer, block].
struct RowOrder {
  std::int64_t outer = 1, inner = 1, block = 1;

  // The stored position of a used row, and how many rows from there on have the same order.
  std::int64_t stored(std::int64_t row) const;
  std::int64_t run(std::int64_t row, std::int64_t end) const;
};

// Rows selected from a larger tensor: `count` rows of each `group` rows, starting at
// `first`.
struct RowChoice {
  std::int64_t group = 1, first = 0, count = 1;

  std::int64_t stored(std::int64_t row) const { return row / count * group + first + row % count; }
  std::int64_t run(std::int64_t row, std::int64_t end) const {
    return group == count ? end - row : std::min(end - row, count - row % count);
  }
};

// A file's tensor, positioned in the matrix of the whole tensor.
struct TensorPart {
  const WeightFile* file = nullptr;
  const WeightEntry* entry = nullptr;
  std::int64_t row = 0, column = 0;
};

struct JoinedTensor {
  std::string name;                 // name for lookup; parts have their files' names
  std::vector<std::int64_t> shape;  // whole shape, as stored
  std::vector<TensorPart> parts;
  RowOrder order = {};
  RowChoice choice = {};  // of the parts' rows, before reordering
  // Whether rows at the end may stay unused: vocabulary padding.
  bool padded = false;
};

// A tensor's parts, in the order of the tensor-parallel ranks.
using RankParts = std::vector<TensorPart>;

// Looks up a tensor on each rank. Refused (exit code 2): a rank that lacks it.
RankParts parts_in(const std::vector<const WeightFile*>& ranks, const std::string& name);
// Refused (exit code 2): a tensor on some rank that the first rank does not have.
void require_no_other_tensors(const std::vector<const WeightFile*>& ranks);

// Concatenates parts by rows (columns). Refused (exit code 2): parts whose types or shapes differ,
// naming both.
JoinedTensor join_rows(const std::string& name, RankParts parts);
JoinedTensor join_columns(const std::string& name, RankParts parts);
// All parts must be identical. Refused (exit code 2) otherwise: they are then from different steps
// or different runs.
JoinedTensor join_copies(const std::string& name, const RankParts& parts);
void require_copy(const TensorPart& tensor, const TensorPart& copy);
// Refused (exit code 2): a tensor that is not the fp32 tensor rounded to its type.
void require_rounded_from(const TensorPart& saved, const TensorPart& exact);

class JoinedTensors : public TensorSource {
 public:
  // For messages: `where` names the folder, `config` the source of the shapes: "params.json".
  JoinedTensors(std::string where, std::string config)
      : where_(std::move(where)), config_(std::move(config)) {}

  // Keeps a file that parts refer to alive as long as this object.
  const WeightFile& keep(std::unique_ptr<WeightFile> file);
  // Refused (exit code 2): a second tensor of that name.
  void add(JoinedTensor tensor);
  const JoinedTensor* find(const std::string& name) const;

  // Refused (exit code 2): a tensor unused by the mapping. Nothing is silently ignored.
  void require_use_of_all(const TensorMapping& mapping) const;

  DType check(const std::string& name, const Shape& shape) const override;
  // Thread-safe. Memory: the size of the region read, in the parts that contain it.
  void read(const std::string& name, const Rectangle& part, std::byte* dst) override;

 private:
  const JoinedTensor& at(const std::string& name) const;

  std::string where_, config_;
  std::vector<std::unique_ptr<WeightFile>> files_;
  std::map<std::string, JoinedTensor> tensors_;
};

// Keeps the fp32 weights and the moments, which may be null.
template <class States>
void keep_states(JoinedTensors& joined, States& states) {
  joined.keep(std::move(states.weights));
  for (auto& moment : states.moments)
    if (moment) joined.keep(std::move(moment));
}

// Whether two tensors have the same type, shape and elements.
bool same_elements(JoinedTensors& tensors, const std::string& name, JoinedTensors& others,
                   const std::string& other);
// Whether `exact` has the tensor in the same shape and its elements, rounded to the type of the
// tensor in `tensors`, are equal.
bool is_rounded_from(JoinedTensors& tensors, JoinedTensors& exact, const std::string& name);

}  // namespace trireme
