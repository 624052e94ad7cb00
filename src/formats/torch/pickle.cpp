// Queries on a pickle's contents.
#include "formats/torch/pickle.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/printable.h"
#include "formats/torch/pickle_machine.h"

namespace trireme {

std::int64_t PickleTensor::count() const {
  // Overflowing products were refused earlier, unless a dimension is 0.
  if (std::ranges::count(shape, 0) > 0) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::uint64_t PickleTensor::bytes() const {
  return static_cast<std::uint64_t>(count() * type->bytes);
}

bool PickleTensor::is_contiguous() const {
  if (count() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Pickle::Pickle(std::string_view text, const std::string& name, const PickleLimits& limits)
    : name_(name) {
  PickleMachine(text, limits, *this).run();
}

std::span<const PickleId> Pickle::children(PickleId id) const {
  using enum PickleKind;
  for (const PickleKind container : {tuple, list, set, dict, object})
    if (kind(id) == container) return children_[values_[id].at];
  return {};
}

const std::string& Pickle::full_name(PickleId id) const {
  if (kind(id) == PickleKind::object) return full_name(children(id)[0]);
  TRIREME_CHECK(kind(id) == PickleKind::name);
  return names_[values_[id].at];
}

PickleId Pickle::state(PickleId id) const {
  return kind(id) == PickleKind::object && children(id).size() == 3 ? children(id)[2] : id;
}

std::optional<PickleId> Pickle::find(PickleId dict, std::string_view key) const {
  dict = state(dict);
  if (kind(dict) != PickleKind::dict) return std::nullopt;
  const auto items = children(dict);
  for (std::size_t i = items.size(); i >= 2; i -= 2) {
    const PickleValue& value = values_[items[i - 2]];
    if (value.kind == PickleKind::text && value.text == key) return items[i - 1];
  }
  return std::nullopt;
}

std::optional<std::int64_t> Pickle::find_integer(PickleId dict, std::string_view key) const {
  const auto id = find(dict, key);
  if (!id || kind(*id) != PickleKind::integer) return std::nullopt;
  return values_[*id].integer;
}

std::optional<double> Pickle::find_number(PickleId dict, std::string_view key) const {
  const auto id = find(dict, key);
  if (id && kind(*id) == PickleKind::real) return values_[*id].real();
  if (id && kind(*id) == PickleKind::integer) return static_cast<double>(values_[*id].integer);
  return std::nullopt;
}

std::optional<bool> Pickle::find_flag(PickleId dict, std::string_view key) const {
  const auto id = find(dict, key);
  if (!id || kind(*id) != PickleKind::boolean) return std::nullopt;
  return values_[*id].integer != 0;
}

std::optional<std::string_view> Pickle::find_text(PickleId dict, std::string_view key) const {
  const auto id = find(dict, key);
  if (!id || kind(*id) != PickleKind::text) return std::nullopt;
  return values_[*id].text;
}

std::string Pickle::shown(PickleId id) const {
  const PickleValue& value = values_[id];
  switch (value.kind) {
    case PickleKind::none:
      return "None";
    case PickleKind::boolean:
      return value.integer ? "True" : "False";
    case PickleKind::integer:
      return fmt::format("{}", value.integer);
    case PickleKind::large:
      return "a large integer";
    case PickleKind::real:
      return fmt::format("{}", value.real());
    case PickleKind::text:
      return fmt::format("the text \"{}\"", printable(value.text));
    case PickleKind::bytes:
      return counted(value.text.size(), "byte");
    case PickleKind::tuple:
      return fmt::format("a tuple of {}", children(id).size());
    case PickleKind::list:
      return fmt::format("a list of {}", children(id).size());
    case PickleKind::set:
      return fmt::format("a set of {}", children(id).size());
    case PickleKind::dict:
      return fmt::format("a dictionary of {}", children(id).size() / 2);
    case PickleKind::name:
      return fmt::format("'{}'", full_name(id));
    case PickleKind::object:
      return fmt::format("an object of '{}'", full_name(id));
    case PickleKind::storage:
      return "a storage";
    case PickleKind::tensor:
      return fmt::format("a tensor of shape [{}]", fmt::join(tensor(id).shape, ","));
  }
  return "";
}

}  // namespace trireme
