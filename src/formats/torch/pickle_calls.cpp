// Calls in a pickle: a few construct dictionaries and tensors, all others inert objects.
#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "formats/torch/pickle_machine.h"

namespace trireme {
namespace {

constexpr std::size_t most_names = 4096;

}  // namespace

PickleId PickleMachine::add_name(std::string_view module, std::string_view name) {
  const auto known = known_names_.find({module, name});
  if (known != known_names_.end()) return known->second;
  const PickleMeaning meaning = pickle_meaning(module, name, out_.name_);
  if (names_.size() == most_names) refuse("it has too many names of classes");
  names_.push_back({std::string(module), std::string(name), meaning});
  out_.names_.push_back(fmt::format("{}.{}", module, name));
  const PickleId id =
      add({.kind = PickleKind::name, .at = static_cast<std::uint32_t>(names_.size() - 1)});
  // Names point into the pickle's text, possibly via another value.
  known_names_.emplace(std::pair(module, name), id);
  return id;
}

const PickleMachine::Name& PickleMachine::name_of(PickleId callable) const {
  if (value(callable).kind != PickleKind::name) {
    refuse(fmt::format("it calls {}", out_.shown(callable)));
  }
  return names_[value(callable).at];
}

PickleId PickleMachine::call(PickleId callable, PickleId arguments) {
  const Name& name = name_of(callable);
  if (value(arguments).kind != PickleKind::tuple) refuse("the arguments of a call are not a tuple");
  const auto given = out_.children(arguments);
  switch (name.meaning) {
    case PickleMeaning::dict:
      return call_dict(given);
    case PickleMeaning::default_dict:
      return call_dict({});
    case PickleMeaning::list:
      return call_collection(PickleKind::list, given);
    case PickleMeaning::set:
      return call_collection(PickleKind::set, given);
    case PickleMeaning::tuple:
      return call_collection(PickleKind::tuple, given);
    case PickleMeaning::encode:
      return call_encode(given);
    case PickleMeaning::bytes:
      return call_bytes(given);
    case PickleMeaning::tensor:
    case PickleMeaning::typed_tensor:
      return call_tensor(given, name.meaning == PickleMeaning::typed_tensor);
    case PickleMeaning::parameter:
      if (given.empty() || value(given[0]).kind != PickleKind::tensor) {
        refuse("a Parameter does not contain a tensor");
      }
      return given[0];
    case PickleMeaning::with_type:
      return call_with_type(given);
    case PickleMeaning::inert:
      return keep_object(callable, arguments);
    case PickleMeaning::storage:
    case PickleMeaning::dtype:
      break;
  }
  refuse(fmt::format("it calls '{}.{}'", name.module, name.name));
}

// No arguments, or a list of pairs as written by Python 2.
PickleId PickleMachine::call_dict(std::span<const PickleId> arguments) {
  const PickleId dict = add_parent(PickleKind::dict, {});
  if (arguments.empty()) return dict;
  const PickleId given = arguments[0];
  if (value(given).kind == PickleKind::dict) {
    const auto items = out_.children(given);
    enlarge(dict, std::vector<PickleId>(items.begin(), items.end()));
    return dict;
  }
  for (std::size_t i = 0; i < out_.children(given).size(); ++i) {
    const auto pair = out_.children(out_.children(given)[i]);
    if (pair.size() != 2) refuse("a dict is built from items that are not pairs");
    const PickleId items[] = {pair[0], pair[1]};
    enlarge(dict, items);
  }
  return dict;
}

PickleId PickleMachine::call_collection(PickleKind kind, std::span<const PickleId> arguments) {
  if (arguments.empty()) return add_parent(kind, {});
  const PickleKind given = value(arguments[0]).kind;
  if (given != PickleKind::tuple && given != PickleKind::list && given != PickleKind::set) {
    refuse(fmt::format("it makes a collection of {}", out_.shown(arguments[0])));
  }
  const auto items = out_.children(arguments[0]);
  return add_parent(kind, {items.begin(), items.end()});
}

// Protocol 2 has no bytes type: each byte is encoded as a character of a UTF-8 string.
PickleId PickleMachine::call_encode(std::span<const PickleId> arguments) {
  if (arguments.empty() || value(arguments[0]).kind != PickleKind::text) {
    refuse("it encodes an object that is not a str");
  }
  const std::string_view text = value(arguments[0]).text;
  encoded_bytes_ += text.size();
  if (encoded_bytes_ > text_.size()) refuse("it encodes the same text again and again");
  charge(2 * text.size());
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      bytes.push_back(text[i]);
      continue;
    }
    const bool two = (first & 0xfe) == 0xc2 && i + 1 < text.size();
    if (!two) refuse("a text that stands for bytes has a character beyond Latin-1");
    const auto second = static_cast<unsigned char>(text[++i]);
    bytes.push_back(static_cast<char>(((first & 3) << 6) | (second & 0x3f)));
  }
  out_.bytes_.push_back(std::move(bytes));
  return add_text(PickleKind::bytes, out_.bytes_.back());
}

PickleId PickleMachine::call_bytes(std::span<const PickleId> arguments) {
  if (arguments.empty()) return add_text(PickleKind::bytes, {});
  if (value(arguments[0]).kind == PickleKind::text) return call_encode(arguments);
  if (value(arguments[0]).kind != PickleKind::bytes)
    refuse("it makes bytes of an object that is not bytes");
  return arguments[0];
}

PickleId PickleMachine::keep_object(PickleId callable, PickleId arguments) {
  const PickleMeaning meaning = name_of(callable).meaning;
  if (value(arguments).kind != PickleKind::tuple) refuse("the arguments of a call are not a tuple");
  if (meaning == PickleMeaning::dict || meaning == PickleMeaning::default_dict) {
    return add_parent(PickleKind::dict, {});
  }
  if (meaning == PickleMeaning::tuple) {
    return call_collection(PickleKind::tuple, out_.children(arguments));
  }
  if (meaning != PickleMeaning::inert) refuse(fmt::format("it makes {}", out_.shown(callable)));
  return add_parent(PickleKind::object, {callable, arguments});
}

// The state becomes the object's third child. Attributes that Python sets on a dictionary (such as
// the versions in a state_dict) or on a tensor are irrelevant for weights.
PickleId PickleMachine::build(PickleId object, PickleId state) {
  const PickleValue& target = value(object);
  if (target.kind == PickleKind::dict || target.kind == PickleKind::tensor ||
      target.kind == PickleKind::list) {
    return object;
  }
  if (target.kind != PickleKind::object)
    refuse(fmt::format("it sets the state of {}", out_.shown(object)));
  if (out_.children(object).size() == 3) refuse("it sets the state of an object twice");
  const PickleId added[] = {state};
  enlarge(object, added);
  return object;
}

std::int64_t PickleMachine::integer(PickleId id, const char* what) const {
  if (value(id).kind != PickleKind::integer || value(id).integer < 0) {
    refuse(fmt::format("{} is {}", what, out_.shown(id)));
  }
  return value(id).integer;
}

std::vector<std::int64_t> PickleMachine::sizes(PickleId tuple, const char* what) const {
  if (value(tuple).kind != PickleKind::tuple) {
    refuse(fmt::format("{} is {}", what, out_.shown(tuple)));
  }
  const auto items = out_.children(tuple);
  if (items.size() > max_tensor_rank) {
    refuse(fmt::format("{} has {} dimensions; at most {} are read", what, items.size(),
                       max_tensor_rank));
  }
  std::vector<std::int64_t> numbers;
  for (const PickleId item : items) numbers.push_back(integer(item, what));
  return numbers;
}

// ('storage', class, key, place, count[, view]); a view is (key, offset, count) within the storage.
PickleId PickleMachine::add_storage(PickleId description) {
  const auto parts = out_.children(description);
  const bool sound =
      value(description).kind == PickleKind::tuple && (parts.size() == 5 || parts.size() == 6) &&
      value(parts[0]).kind == PickleKind::text && value(parts[0]).text == "storage" &&
      value(parts[1]).kind == PickleKind::name &&
      names_[value(parts[1]).at].meaning == PickleMeaning::storage;
  if (!sound) refuse("a persistent id does not describe a storage");
  if (parts.size() == 6 && value(parts[5]).kind != PickleKind::none) {
    refuse(
        "a storage is a view of another one, as in files of 2017: load it with a current PyTorch "
        "and save it again");
  }
  if (value(parts[2]).kind != PickleKind::text) refuse("the key of a storage is not a text");
  const Name& name = name_of(parts[1]);
  const TorchType* type = find_torch_storage(name.name);
  const PickleStorage storage{value(parts[2]).text, type ? type : &torch_bytes(),
                              integer(parts[4], "the size of a storage")};
  charge(sizeof storage);
  const auto [known, fresh] =
      known_storages_.emplace(storage.key, static_cast<std::uint32_t>(out_.storages_.size()));
  if (fresh) {
    out_.storages_.push_back(storage);
  } else {
    const PickleStorage& first = out_.storages_[known->second];
    if (first.type != storage.type || first.count != storage.count) {
      refuse(fmt::format("the storage '{}' is described in two ways", printable(storage.key)));
    }
  }
  return add({.kind = PickleKind::storage, .at = known->second});
}

// (storage, offset, shape, strides, requires_grad, hooks[, element type, ...])
PickleId PickleMachine::call_tensor(std::span<const PickleId> arguments, bool typed) {
  if (arguments.size() < (typed ? 7 : 4)) refuse("a tensor has too few arguments");
  if (value(arguments[0]).kind != PickleKind::storage) refuse("a tensor has no storage");
  PickleTensor tensor;
  tensor.storage = value(arguments[0]).at;
  tensor.type = out_.storages_[tensor.storage].type;
  if (typed) {
    const TorchType* type = value(arguments[6]).kind == PickleKind::name
                                ? find_torch_dtype(name_of(arguments[6]).name)
                                : nullptr;
    if (!type) refuse(fmt::format("a tensor has the element type {}", out_.shown(arguments[6])));
    tensor.type = type;
  }
  tensor.offset = integer(arguments[1], "the offset of a tensor");
  tensor.shape = sizes(arguments[2], "the shape of a tensor");
  tensor.strides = sizes(arguments[3], "the strides of a tensor");
  if (tensor.shape.size() != tensor.strides.size())
    refuse("a tensor has more or fewer strides than dimensions");
  if (!typed && arguments.size() > 6 && value(arguments[6]).kind == PickleKind::dict &&
      !out_.children(arguments[6]).empty()) {
    refuse(
        "a tensor has its negative or conjugate bit set: save tensor.resolve_neg().resolve_conj()");
  }
  check_extent(tensor);
  charge(sizeof tensor + 2 * tensor.shape.size() * sizeof(std::int64_t));
  out_.tensors_.push_back(std::move(tensor));
  return add(
      {.kind = PickleKind::tensor, .at = static_cast<std::uint32_t>(out_.tensors_.size() - 1)});
}

void PickleMachine::check_extent(const PickleTensor& tensor) const {
  const PickleStorage& storage = out_.storages_[tensor.storage];
  std::int64_t last = tensor.offset, count = 1, storage_bytes = 0;
  bool fits = !__builtin_mul_overflow(storage.count, storage.type->bytes, &storage_bytes);
  const bool empty = std::ranges::count(tensor.shape, 0) > 0;
  for (std::size_t i = 0; i < tensor.shape.size() && !empty; ++i) {
    std::int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(count, tensor.shape[i], &count) &&
           !__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  std::int64_t end = 0;
  fits = fits && !__builtin_add_overflow(last, empty ? 0 : 1, &end) &&
         !__builtin_mul_overflow(end, tensor.type->bytes, &end) &&
         !__builtin_mul_overflow(count, tensor.type->bytes, &count);
  if (!fits || end > storage_bytes) {
    refuse(fmt::format("a tensor of shape [{}] reaches beyond its storage '{}' of {} {} elements",
                       fmt::join(tensor.shape, ","), printable(storage.key), storage.count,
                       storage.type->name));
  }
}

PickleId PickleMachine::call_with_type(std::span<const PickleId> arguments) {
  const bool sound = arguments.size() == 4 && value(arguments[2]).kind == PickleKind::tuple;
  if (!sound) refuse("a tensor with attributes has too few arguments");
  const PickleMeaning meaning = name_of(arguments[0]).meaning;
  if (meaning != PickleMeaning::tensor && meaning != PickleMeaning::typed_tensor &&
      meaning != PickleMeaning::parameter) {
    refuse(fmt::format("a tensor is made by {}", out_.shown(arguments[0])));
  }
  return call(arguments[0], arguments[2]);
}

}  // namespace trireme
