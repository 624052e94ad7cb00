// Converts DCP's objects, which the pickle reader keeps inert, to plain structs.
#include "formats/dcp/metadata.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "base/printable.h"
#include "formats/torch/pickle.h"

namespace trireme {
namespace {

constexpr const char* metadata_class = "torch.distributed.checkpoint.metadata.Metadata";

// Product of sizes; negative sizes and overflows were refused earlier.
std::int64_t product(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

std::string shown(const std::vector<std::int64_t>& sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ","));
}

class MetadataReader {
 public:
  explicit MetadataReader(const Pickle& pickle) : pickle_(pickle) {}

  DcpMetadata read() {
    const PickleId root = pickle_.root();
    if (pickle_.kind(root) != PickleKind::object || pickle_.full_name(root) != metadata_class) {
      fail_input("'{}' contains {}, but torch.distributed.checkpoint's '{}' is expected",
                 pickle_.name(), pickle_.shown(root), metadata_class);
    }
    check_version(root);
    read_places(wanted(root, "storage_data", PickleKind::dict));
    const auto items = pickle_.children(wanted(root, "state_dict_metadata", PickleKind::dict));
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) read_item(items[i], items[i + 1]);
    if (!places_.empty()) {
      const auto& [name, offsets] = places_.begin()->first;
      refuse(fmt::format("there is a place for '{}' at {}, and no such part of it", printable(name),
                         shown(offsets)));
    }
    return std::move(out_);
  }

 private:
  using Key = std::pair<std::string_view, std::vector<std::int64_t>>;

  [[noreturn]] void refuse(const std::string& why) const {
    fail_input("'{}' is damaged: {}", pickle_.name(), why);
  }

  PickleId wanted(PickleId object, const char* key, PickleKind kind) const {
    const auto found = pickle_.find(object, key);
    if (found && pickle_.kind(*found) == kind) return *found;
    refuse(fmt::format("{} has {} as {}", pickle_.shown(object),
                       found ? pickle_.shown(*found) : "nothing", key));
  }
  std::int64_t number(PickleId object, const char* key) const {
    const std::int64_t value = pickle_[wanted(object, key, PickleKind::integer)].integer;
    if (value < 0) refuse(fmt::format("{} has {} as {}", pickle_.shown(object), value, key));
    return value;
  }
  std::vector<std::int64_t> sizes(PickleId object, const char* key) const {
    std::vector<std::int64_t> out;
    std::int64_t count = 1;
    const auto items = pickle_.children(wanted(object, key, PickleKind::tuple));
    if (items.size() > max_tensor_rank) refuse(fmt::format("{} has too many dimensions", key));
    for (const PickleId item : items) {
      const PickleValue& value = pickle_[item];
      const bool sound =
          value.kind == PickleKind::integer && value.integer >= 0 &&
          !__builtin_mul_overflow(count, std::max<std::int64_t>(1, value.integer), &count);
      if (!sound) refuse(fmt::format("{} holds {}", key, pickle_.shown(item)));
      out.push_back(value.integer);
    }
    return out;
  }

  void check_version(PickleId root) {
    const auto version = pickle_.find(root, "version");
    if (!version || pickle_.kind(*version) == PickleKind::none) return;
    if (pickle_.kind(*version) == PickleKind::text) out_.version = pickle_[*version].text;
    if (out_.version.starts_with("1.")) return;
    fail_input("'{}' has version {} of DCP's format; supported are 1.x and files without a version",
               pickle_.name(), pickle_.shown(*version));
  }

  // Reads the locations of items by name and offsets.
  void read_places(PickleId dict) {
    const auto items = pickle_.children(dict);
    std::set<std::string> files;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      files.emplace(file_name(items[i + 1]));
    }
    out_.files.assign(files.begin(), files.end());
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleId index = items[i], info = items[i + 1];
      Key key{pickle_[wanted(index, "fqn", PickleKind::text)].text, {}};
      const auto offset = pickle_.find(index, "offset");
      if (offset && pickle_.kind(*offset) != PickleKind::none) key.second = sizes(index, "offset");
      const auto file = std::ranges::lower_bound(out_.files, file_name(info));
      const DcpItem item{static_cast<std::size_t>(file - out_.files.begin()),
                         static_cast<std::uint64_t>(number(info, "offset")),
                         static_cast<std::uint64_t>(number(info, "length"))};
      if (!places_.emplace(key, item).second) {
        refuse(fmt::format("there are two places for '{}' at {}", printable(key.first),
                           shown(key.second)));
      }
    }
  }

  std::string file_name(PickleId info) const {
    const std::string_view name = pickle_[wanted(info, "relative_path", PickleKind::text)].text;
    if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos ||
        name == "." || name == "..") {
      refuse(fmt::format("'{}' is not the name of a file in the folder", printable(name)));
    }
    const auto changes = pickle_.find(info, "transform_descriptors");
    if (changes && !pickle_.children(*changes).empty()) {
      fail_input(
          "'{}': the contents of '{}' are compressed or otherwise transformed ({}), which is not "
          "supported: save without extensions",
          pickle_.name(), printable(name), pickle_.shown(pickle_.children(*changes)[0]));
    }
    return std::string(name);
  }

  DcpItem take_place(std::string_view name, const std::vector<std::int64_t>& offsets) {
    const auto found = places_.find(Key{name, offsets});
    if (found == places_.end()) {
      refuse(fmt::format("'{}' at {} lies in no file", printable(name), shown(offsets)));
    }
    const DcpItem item = found->second;
    places_.erase(found);
    return item;
  }

  void read_item(PickleId key, PickleId value) {
    if (pickle_.kind(key) != PickleKind::text || pickle_.kind(value) != PickleKind::object) {
      refuse(fmt::format("it lists {} as {}", pickle_.shown(key), pickle_.shown(value)));
    }
    const std::string_view name = pickle_[key].text, what = pickle_.full_name(value);
    if (what.ends_with(".TensorStorageMetadata")) return read_tensor(name, value);
    if (!what.ends_with(".BytesStorageMetadata")) {
      refuse(fmt::format("'{}' is {}", printable(name), pickle_.shown(value)));
    }
    out_.values.push_back({std::string(name), take_place(name, {})});
  }

  void read_tensor(std::string_view name, PickleId value) {
    DcpTensor tensor{std::string(name), element_type(name, value), sizes(value, "size"), {}};
    for (const PickleId id : pickle_.children(wanted(value, "chunks", PickleKind::list))) {
      DcpChunk chunk{sizes(id, "offsets"), sizes(id, "sizes"), {}};
      bool inside =
          chunk.offsets.size() == tensor.shape.size() && chunk.sizes.size() == tensor.shape.size();
      for (std::size_t i = 0; inside && i < tensor.shape.size(); ++i) {
        inside = chunk.offsets[i] <= tensor.shape[i] &&
                 chunk.sizes[i] <= tensor.shape[i] - chunk.offsets[i];
      }
      if (!inside) {
        refuse(fmt::format("a part of '{}' at {} of the shape {} leaves the tensor, which has {}",
                           printable(name), shown(chunk.offsets), shown(chunk.sizes),
                           shown(tensor.shape)));
      }
      chunk.item = take_place(name, chunk.offsets);
      tensor.chunks.push_back(std::move(chunk));
    }
    out_.tensors.push_back(std::move(tensor));
  }

  // The state of the properties object is a tuple whose first item is the type.
  const TorchType* element_type(std::string_view name, PickleId value) const {
    const PickleId properties = wanted(value, "properties", PickleKind::object);
    const auto state = pickle_.children(pickle_.state(properties));
    const bool named = pickle_.kind(pickle_.state(properties)) == PickleKind::tuple &&
                       !state.empty() && pickle_.kind(state[0]) == PickleKind::name;
    const std::string type = named ? pickle_.full_name(state[0]) : "";
    const TorchType* found =
        type.starts_with("torch.") ? find_torch_dtype(std::string_view(type).substr(6)) : nullptr;
    if (!found) {
      refuse(fmt::format("'{}' has {} as its type", printable(name),
                         state.empty() ? "nothing" : pickle_.shown(state[0])));
    }
    return found;
  }

  const Pickle& pickle_;
  DcpMetadata out_;
  std::map<Key, DcpItem> places_;
};

bool overlap(const DcpChunk& one, const DcpChunk& other) {
  for (std::size_t i = 0; i < one.sizes.size(); ++i) {
    if (one.offsets[i] + one.sizes[i] <= other.offsets[i] ||
        other.offsets[i] + other.sizes[i] <= one.offsets[i]) {
      return false;
    }
  }
  return true;
}

std::string described(const DcpChunk& chunk) {
  return fmt::format("{} at {}", shown(chunk.sizes), shown(chunk.offsets));
}

}  // namespace

std::int64_t DcpChunk::count() const {
  return product(sizes);
}

std::int64_t DcpTensor::count() const {
  return product(shape);
}

DcpMetadata parse_dcp_metadata(std::string_view text, const std::string& name) {
  // Values need several times the bytes that describe them (15 overall, up to 24 where lists of
  // chunks begin), and large models have many.
  const PickleLimits limits{
      .bytes = std::uint64_t{1} << 30, .memory = std::uint64_t{16} << 20, .memory_per_byte = 24};
  const Pickle pickle(text, name, limits);
  if (pickle.size() != text.size()) {
    fail_input("'{}' has {} after its end", name, counted(text.size() - pickle.size(), "byte"));
  }
  return MetadataReader(pickle).read();
}

// Checks along the first dimension, together with the chunks at the same position in it.
std::string dcp_tiling_fault(const DcpTensor& tensor) {
  constexpr std::size_t most_side_by_side = 1024;
  std::vector<const DcpChunk*> chunks, beside;
  std::int64_t held = 0;
  for (const DcpChunk& chunk : tensor.chunks) {
    if (chunk.count() > 0) chunks.push_back(&chunk);
  }
  std::ranges::sort(
      chunks, {}, [](const DcpChunk* chunk) -> const auto& { return chunk->offsets; });
  for (const DcpChunk* chunk : chunks) {
    if (!chunk->sizes.empty()) {
      std::erase_if(beside, [&](const DcpChunk* other) {
        return other->offsets[0] + other->sizes[0] <= chunk->offsets[0];
      });
    }
    if (beside.size() == most_side_by_side) {
      return fmt::format("more than {} parts lie side by side", most_side_by_side);
    }
    for (const DcpChunk* other : beside) {
      if (overlap(*chunk, *other)) {
        return fmt::format("the parts {} and {} overlap", described(*other), described(*chunk));
      }
    }
    beside.push_back(chunk);
    held += chunk->count();
  }
  if (held == tensor.count()) return "";
  return fmt::format("its parts hold {} of its {}", held, counted(tensor.count(), "element"));
}

}  // namespace trireme
