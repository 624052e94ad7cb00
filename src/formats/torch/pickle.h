// Pickles as data: a reader that knows what the files of training programs hold and executes
// nothing. Python's own reader imports whatever a file names and calls it; this one has a closed
// list of names, of which a few (dictionaries, tensors) have a meaning here. Objects of the others
// become inert values with a name and arguments, and any name that is not in the list is refused.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/torch/element_type.h"

namespace trireme {

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,  // of 64 bits
  large,    // an integer that needs more; its text is its bytes, the lowest first
  real,
  text,
  bytes,
  tuple,
  list,
  set,
  dict,     // of any class of dictionary
  name,     // of a class or a function: "torch.bfloat16"
  object,   // of a class that has no meaning here: its name, arguments and state
  storage,  // of tensors
  tensor,
};

using PickleId = std::uint32_t;

struct PickleValue {
  PickleKind kind = PickleKind::none;
  std::uint16_t depth = 0;   // of values within it when it was made
  std::uint32_t at = 0;      // of its children, storage, tensor or name
  std::int64_t integer = 0;  // boolean, integer; of a real its bits
  std::string_view text;

  double real() const { return std::bit_cast<double>(integer); }
};

// Bytes in a file that tensors share.
struct PickleStorage {
  std::string_view key;  // names them in the file
  const TorchType* type = nullptr;
  std::int64_t count = 0;  // of elements
};

inline constexpr std::size_t max_tensor_rank = 8;

// A tensor as a view of a storage, in elements; checked to lie within it.
struct PickleTensor {
  std::uint32_t storage = 0;  // position in Pickle::storages
  const TorchType* type = nullptr;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape, strides;

  std::int64_t count() const;
  std::uint64_t bytes() const;
  // Whether its elements lie one after the other in row-major order.
  bool is_contiguous() const;
};

// What a pickle may hold at most; any more is refused.
struct PickleLimits {
  std::uint64_t bytes = std::uint64_t{64} << 20;   // of the pickle
  std::uint64_t memory = std::uint64_t{24} << 20;  // bytes, of what is made of it
  // ... and as many more for each byte that was read so far: what makes much of little ends early.
  std::uint64_t memory_per_byte = 0;
  int depth = 64;  // of values within values
};

class Pickle {
 public:
  // Reads the pickle that `text` begins with; `text` must outlive it. `name` is the file's name for
  // messages. Refused (exit code 2): what is damaged, goes beyond the limits or names anything that
  // is not in the list.
  Pickle(std::string_view text, const std::string& name, const PickleLimits& limits = {});

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }  // in bytes, with its end
  PickleId root() const { return root_; }

  const PickleValue& operator[](PickleId id) const { return values_[id]; }
  PickleKind kind(PickleId id) const { return values_[id].kind; }
  // Of a tuple, a list or a set: its items. Of a dictionary: keys and values in turn. Of an object:
  // its class, its arguments and, where it has one, its state.
  std::span<const PickleId> children(PickleId id) const;
  const PickleTensor& tensor(PickleId id) const { return tensors_[values_[id].at]; }
  std::size_t tensor_count() const { return tensors_.size(); }
  const PickleTensor& tensor_at(std::size_t i) const { return tensors_[i]; }
  const std::deque<PickleStorage>& storages() const { return storages_; }
  // What a `name` says: "argparse.Namespace"; of an object: that of its class.
  const std::string& full_name(PickleId id) const;

  // The value at a key of a dictionary or of an object's state; the last one where the key is there
  // several times, as in Python. Linear in the number of keys.
  std::optional<PickleId> find(PickleId dict, std::string_view key) const;
  std::optional<std::int64_t> find_integer(PickleId dict, std::string_view key) const;
  std::optional<double> find_number(PickleId dict, std::string_view key) const;
  std::optional<bool> find_flag(PickleId dict, std::string_view key) const;
  std::optional<std::string_view> find_text(PickleId dict, std::string_view key) const;
  // The state of an object, itself for a dictionary.
  PickleId state(PickleId id) const;

  // One line for messages and listings: `12`, `the text "adam"`, `a list of 3`.
  std::string shown(PickleId id) const;

 private:
  friend class PickleMachine;

  std::string name_;
  std::size_t size_ = 0;
  PickleId root_ = 0;
  // These do not move when they grow, so that no copy of them takes memory too.
  std::deque<PickleValue> values_;
  std::deque<std::vector<PickleId>> children_;
  std::deque<PickleStorage> storages_;
  std::deque<PickleTensor> tensors_;
  std::vector<std::string> names_;
  std::deque<std::string> bytes_;  // that are not in the text as they are
};

}  // namespace trireme
