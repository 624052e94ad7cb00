// Reads pickles as data, without executing anything. Python's reader imports and calls any name in
// the file; this one has a closed list of names, of which a few (dictionaries, tensors) have a
// meaning here. Objects of other listed classes become inert values with a name and arguments;
// names that are not listed are refused.
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
  large,    // larger integer; its text has the bytes in little-endian order
  real,
  text,
  bytes,
  tuple,
  list,
  set,
  dict,     // any dictionary class
  name,     // class or function: "torch.bfloat16"
  object,   // object of an inert class: its name, arguments and state
  storage,  // tensor storage
  tensor,
};

using PickleId = std::uint32_t;

struct PickleValue {
  PickleKind kind = PickleKind::none;
  std::uint16_t depth = 0;   // nesting depth below it at creation
  std::uint32_t at = 0;      // index of its children, storage, tensor or name
  std::int64_t integer = 0;  // boolean or integer; bits of a real
  std::string_view text;

  double real() const { return std::bit_cast<double>(integer); }
};

// Bytes of a file shared by tensors.
struct PickleStorage {
  std::string_view key;  // its name in the file
  const TorchType* type = nullptr;
  std::int64_t count = 0;  // of elements
};

inline constexpr std::size_t max_tensor_rank = 8;

// A tensor as a view of a storage, in elements; checked to be within it.
struct PickleTensor {
  std::uint32_t storage = 0;  // index into Pickle::storages
  const TorchType* type = nullptr;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape, strides;

  std::int64_t count() const;
  std::uint64_t bytes() const;
  // Whether its elements are contiguous in row-major order.
  bool is_contiguous() const;
};

// Limits on a pickle's size and memory; anything beyond is refused.
struct PickleLimits {
  std::uint64_t bytes = std::uint64_t{64} << 20;   // size of the pickle
  std::uint64_t memory = std::uint64_t{24} << 20;  // bytes for the parsed values
  // Additional memory per byte read so far, so that small inputs cannot expand far.
  std::uint64_t memory_per_byte = 0;
  int depth = 64;  // nesting depth
};

class Pickle {
 public:
  // Parses the pickle at the start of `text`, which must outlive this object. `name` is the
  // file's name for messages. Refused (exit code 2): damage, exceeded limits, names that are not
  // listed.
  Pickle(std::string_view text, const std::string& name, const PickleLimits& limits = {});

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }  // in bytes, including the end marker
  PickleId root() const { return root_; }

  const PickleValue& operator[](PickleId id) const { return values_[id]; }
  PickleKind kind(PickleId id) const { return values_[id].kind; }
  // For a tuple, list or set: its items. For a dictionary: alternating keys and values. For an
  // object: its class, its arguments and, if any, its state.
  std::span<const PickleId> children(PickleId id) const;
  const PickleTensor& tensor(PickleId id) const { return tensors_[values_[id].at]; }
  std::size_t tensor_count() const { return tensors_.size(); }
  const PickleTensor& tensor_at(std::size_t i) const { return tensors_[i]; }
  const std::deque<PickleStorage>& storages() const { return storages_; }
  // The full name of a `name`, "argparse.Namespace"; for an object, that of its class.
  const std::string& full_name(PickleId id) const;

  // Value of a key in a dictionary or an object's state; the last one for duplicate keys, as in
  // Python. Linear in the number of keys.
  std::optional<PickleId> find(PickleId dict, std::string_view key) const;
  std::optional<std::int64_t> find_integer(PickleId dict, std::string_view key) const;
  std::optional<double> find_number(PickleId dict, std::string_view key) const;
  std::optional<bool> find_flag(PickleId dict, std::string_view key) const;
  std::optional<std::string_view> find_text(PickleId dict, std::string_view key) const;
  // The state of an object; a dictionary is its own state.
  PickleId state(PickleId id) const;

  // Formats a value for messages and listings: `12`, `the text "adam"`, `a list of 3`.
  std::string shown(PickleId id) const;

 private:
  friend class PickleMachine;

  std::string name_;
  std::size_t size_ = 0;
  PickleId root_ = 0;
  // Deques do not reallocate on growth, which would temporarily double memory.
  std::deque<PickleValue> values_;
  std::deque<std::vector<PickleId>> children_;
  std::deque<PickleStorage> storages_;
  std::deque<PickleTensor> tensors_;
  std::vector<std::string> names_;
  std::deque<std::string> bytes_;  // not contiguous in the text
};

}  // namespace trireme
