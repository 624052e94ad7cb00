// Tensors of which several files hold parts, as a source of whole ones.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "formats/weight_file.h"
#include "tensors/mapping.h"

namespace trireme {

// How rows are stored and how they are wanted. The rows are viewed as [..., outer, inner, block]:
// stored in this order, and wanted as [..., inner, outer, block].
struct RowOrder {
  std::int64_t outer = 1, inner = 1, block = 1;

  // Where a wanted row is stored, and how many rows from there on are wanted in the same order.
  std::int64_t stored(std::int64_t row) const;
  std::int64_t run(std::int64_t row, std::int64_t end) const;
};

// Rows of a tensor that lie in a larger one: `count` rows of each `group` rows of it, from `first`
// on.
struct RowChoice {
  std::int64_t group = 1, first = 0, count = 1;

  std::int64_t stored(std::int64_t row) const { return row / count * group + first + row % count; }
  std::int64_t run(std::int64_t row, std::int64_t end) const {
    return group == count ? end - row : std::min(end - row, count - row % count);
  }
};

// A tensor of a file, placed in the matrix of the whole.
struct TensorPart {
  const WeightFile* file = nullptr;
  const WeightEntry* entry = nullptr;
  std::int64_t row = 0, column = 0;
};

struct JoinedTensor {
  std::string name;                 // for whoever asks; the parts have those of their files
  std::vector<std::int64_t> shape;  // of the whole, as it is stored
  std::vector<TensorPart> parts;
  RowOrder order = {};
  RowChoice choice = {};  // of the rows of its parts, before they are put in order
  // Rows at the end may stay unread: those that pad a vocabulary.
  bool padded = false;
};

// What the ranks of tensor parallelism hold of a tensor, in their order.
using RankParts = std::vector<TensorPart>;

// Those of a tensor. Refused (exit code 2): a rank that lacks it.
RankParts parts_in(const std::vector<const WeightFile*>& ranks, const std::string& name);
// Refused (exit code 2): a tensor that some rank has and the first has not.
void require_no_other_tensors(const std::vector<const WeightFile*>& ranks);

// Rows (columns) of the parts follow each other. Refused (exit code 2): parts whose types or shapes
// differ, naming both.
JoinedTensor join_rows(const std::string& name, RankParts parts);
JoinedTensor join_columns(const std::string& name, RankParts parts);
// All parts are the same. Refused (exit code 2) where they are not: they are then of different
// steps of a run, or of different runs.
JoinedTensor join_copies(const std::string& name, const RankParts& parts);
void require_copy(const TensorPart& tensor, const TensorPart& copy);
// Refused (exit code 2): a tensor that is not the one in fp32, rounded to its type.
void require_rounded_from(const TensorPart& saved, const TensorPart& exact);

class JoinedTensors : public TensorSource {
 public:
  // For messages: `where` names the folder, and `config` what gives the shapes: "params.json".
  JoinedTensors(std::string where, std::string config)
      : where_(std::move(where)), config_(std::move(config)) {}

  // A file that parts refer to lives as long as this object.
  const WeightFile& keep(std::unique_ptr<WeightFile> file);
  // Refused (exit code 2): a second tensor of that name.
  void add(JoinedTensor tensor);
  const JoinedTensor* find(const std::string& name) const;

  // Refused (exit code 2): a tensor that the mapping does not use. Nothing is left out silently.
  void require_use_of_all(const TensorMapping& mapping) const;

  DType check(const std::string& name, const Shape& shape) const override;
  // Several threads may read at once. Memory: as much as is read, of the parts that hold it.
  void read(const std::string& name, const Rectangle& part, std::byte* dst) override;

 private:
  const JoinedTensor& at(const std::string& name) const;

  std::string where_, config_;
  std::vector<std::unique_ptr<WeightFile>> files_;
  std::map<std::string, JoinedTensor> tensors_;
};

// Weights in fp32 and moments, which may be null.
template <class States>
void keep_states(JoinedTensors& joined, States& states) {
  joined.keep(std::move(states.weights));
  for (auto& moment : states.moments)
    if (moment) joined.keep(std::move(moment));
}

// Whether two tensors have the same type, shape and elements.
bool same_elements(JoinedTensors& tensors, const std::string& name, JoinedTensors& others,
                   const std::string& other);
// Whether `exact` has the tensor in the same shape, and its elements, rounded to the type of the
// tensor in `tensors`, are those.
bool is_rounded_from(JoinedTensors& tensors, JoinedTensors& exact, const std::string& name);

}  // namespace trireme
