// Walks dictionaries and lists to find their tensors.
#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "formats/torch/file.h"

namespace trireme {
namespace {

class TensorWalk {
 public:
  explicit TensorWalk(const Pickle& pickle) : pickle_(pickle) {}

  void visit(PickleId id, const std::string& name, int depth) {
    // Values may be shared; more visits than any real file needs indicate an attack.
    if (++visits_ > most_visits || depth > deepest) {
      fail_input(
          "'{}': its values are nested too deeply, or contain each other too often, to be read",
          pickle_.name());
    }
    const auto items = pickle_.children(id);
    const PickleKind kind = pickle_.kind(id);
    if (kind == PickleKind::tensor) return add(id, name);
    if (kind == PickleKind::dict) {
      for (std::size_t i = 0; i + 1 < items.size(); i += 2)
        if (wanted(items[i + 1])) visit(items[i + 1], join(name, key(items[i])), depth + 1);
    } else if (kind == PickleKind::list || kind == PickleKind::tuple) {
      for (std::size_t i = 0; i < items.size(); ++i)
        if (wanted(items[i])) visit(items[i], join(name, std::to_string(i)), depth + 1);
    }
  }

  std::vector<TorchEntry> found;

 private:
  static constexpr int most_visits = 1'000'000, deepest = 64;
  static constexpr std::size_t most_bytes = std::size_t{16} << 20;  // for names and shapes
  static constexpr std::size_t longest_name = 1000;

  bool wanted(PickleId id) const {
    return pickle_.kind(id) == PickleKind::tensor || !pickle_.children(id).empty();
  }
  std::string key(PickleId id) const {
    const PickleValue& value = pickle_[id];
    return value.kind == PickleKind::text ? std::string(value.text.substr(0, longest_name))
                                          : pickle_.shown(id);
  }
  std::string join(const std::string& name, const std::string& further) const {
    if (name.size() + further.size() >= longest_name) {
      fail_input("'{}': the name of a tensor is longer than {} bytes", pickle_.name(),
                 longest_name);
    }
    return name.empty() ? further : name + "." + further;
  }
  void add(PickleId id, const std::string& name) {
    const PickleTensor& tensor = pickle_.tensor(id);
    bytes_ += name.size() + 2 * tensor.shape.size() * sizeof(std::int64_t) + sizeof(TorchEntry);
    if (bytes_ > most_bytes) fail_input("'{}' holds too many tensors", pickle_.name());
    found.push_back({name, tensor});
  }

  const Pickle& pickle_;
  std::size_t bytes_ = 0;
  int visits_ = 0;
};

}  // namespace

std::vector<TorchEntry> torch_entries(const Pickle& pickle, PickleId root) {
  TensorWalk walk(pickle);
  walk.visit(root, "", 0);
  std::vector<std::string_view> names;
  for (const TorchEntry& entry : walk.found) names.emplace_back(entry.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    fail_input("'{}' holds the tensor '{}' twice", pickle.name(), printable(*twice));
  }
  return std::move(walk.found);
}

}  // namespace trireme
