// Detects the two formats of torch.save and locates their contents.
#include <algorithm>
#include <cstring>
#include <map>

#include "base/counted.h"
#include "base/error.h"
#include "base/foreign_bytes.h"
#include "base/printable.h"
#include "formats/torch/file.h"
#include "formats/torch/zip_archive.h"

namespace trireme {
namespace {

// First pickle of the stream format: an 80-bit magic number with its opcode and length.
constexpr std::string_view stream_magic{"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 13};
constexpr std::int64_t stream_version = 1001;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Whether a pickle starts here; if it is framed, checks the opcode after the first frame.
bool begins_stream(std::string_view text) {
  if (text.size() < 2 || text[0] != '\x80' || text[1] < 2 || text[1] > 5) return false;
  text.remove_prefix(2);
  if (text.size() > 9 && text[0] == '\x95') text.remove_prefix(9);
  return text.starts_with(stream_magic);
}

[[noreturn]] void refuse_unknown(std::string_view text, const std::string& name) {
  refuse_if_placeholder(name, text);
  const bool tar = text.size() > 262 && text.substr(257, 5) == "ustar";
  if (tar) {
    fail_input(
        "'{}' is a tar archive, as written by PyTorch before 0.2: load it with a current PyTorch "
        "and save it again",
        name);
  }
  if (text.starts_with('\x80')) {
    fail_input(
        "'{}' is a plain pickle, not a torch.save file: load it in Python and save it with "
        "torch.save",
        name);
  }
  fail_input(
      "'{}' is not a torch.save file: it is neither a zip archive nor in torch.save's legacy "
      "format",
      name);
}

// Byte size of a storage; the maximum if it overflows, which is refused later.
std::uint64_t storage_bytes(const PickleStorage& storage) {
  // The product was checked where a tensor uses it; a storage without one may still overflow.
  std::int64_t bytes = 0;
  const bool over = __builtin_mul_overflow(storage.count, storage.type->bytes, &bytes);
  return over ? ~std::uint64_t{0} : static_cast<std::uint64_t>(bytes);
}

class TorchZip {
 public:
  TorchZip(std::span<const std::byte> bytes, const std::string& name, const PickleLimits& limits)
      : bytes_(bytes), name_(name), entries_(parse_zip(bytes, name)) {
    const ZipEntry& main = find_main();
    check_kind();
    check_crc(main);
    content_.is_zip = true;
    content_.pickle.emplace(content(main), name, limits);
    if (content_.pickle->size() != main.bytes) {
      fail_input("'{}': bytes follow the end of '{}'", name, printable(main.name));
    }
    for (const PickleStorage& storage : content_.pickle->storages()) add(storage);
  }
  TorchContent take() { return std::move(content_); }

 private:
  std::string_view content(const ZipEntry& entry) const {
    return as_text(bytes_).substr(entry.begin, entry.bytes);
  }
  void check_crc(const ZipEntry& entry) const {
    if (zip_crc(0, bytes_.subspan(entry.begin, entry.bytes)) != entry.crc) {
      fail_input("'{}' is damaged: the checksum of '{}' is wrong", name_, printable(entry.name));
    }
  }
  const ZipEntry* find(const std::string& path) const {
    const auto at = std::ranges::lower_bound(entries_, path, {}, &ZipEntry::name);
    return at == entries_.end() || at->name != path ? nullptr : &*at;
  }

  // Finds the pickle in the only top-level folder; sets its name.
  const ZipEntry& find_main() {
    if (entries_.empty()) fail_input("'{}' is an empty archive", name_);
    const std::string& first = entries_[0].name;
    const std::size_t slash = first.find('/');
    folder_ = slash == first.npos ? "" : first.substr(0, slash + 1);
    const bool one = slash != first.npos && std::ranges::all_of(entries_, [&](const auto& entry) {
                       return entry.name.starts_with(folder_);
                     });
    const ZipEntry* main = one ? find(folder_ + "data.pkl") : nullptr;
    if (!main) {
      fail_input("'{}' is a zip archive, but not a torch.save file: it has no 'FOLDER/data.pkl'",
                 name_);
    }
    return *main;
  }

  void check_kind() const {
    const bool script = std::ranges::any_of(entries_, [&](const ZipEntry& entry) {
      return entry.name == folder_ + "constants.pkl" || entry.name.starts_with(folder_ + "code/");
    });
    if (script) {
      fail_input("'{}' is a TorchScript program, not weights: in Python, save its state_dict()",
                 name_);
    }
    const ZipEntry* order = find(folder_ + "byteorder");
    if (order && content(*order) != "little") {
      fail_input(
          "'{}' has the byte order \"{}\"; only \"little\" is supported: load it in Python and "
          "save it on a little-endian machine",
          name_, printable(content(*order)));
    }
  }

  void add(const PickleStorage& storage) {
    const ZipEntry* entry = find(fmt::format("{}data/{}", folder_, storage.key.substr(0, 4096)));
    if (!entry) {
      fail_input("'{}' is incomplete: the storage 'data/{}' is missing", name_,
                 printable(storage.key));
    }
    if (entry->bytes != storage_bytes(storage)) {
      fail_input("'{}': the storage '{}' has {} where {} of {} were expected", name_,
                 printable(entry->name), counted(entry->bytes, "byte"),
                 counted(storage.count, "element"), storage.type->name);
    }
    content_.storages.push_back({entry->begin, entry->bytes, entry->crc});
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::vector<ZipEntry> entries_;
  std::string folder_;
  TorchContent content_;
};

// Five pickles, then the storages in the order listed in the fifth, each preceded by its number of
// elements.
TorchContent parse_stream(std::span<const std::byte> bytes, const std::string& name,
                          const PickleLimits& limits) {
  const std::string_view text = as_text(bytes);
  std::uint64_t at = 0;
  const auto next = [&] {
    Pickle pickle(text.substr(at), name, limits);
    at += pickle.size();
    return pickle;
  };
  next();
  const Pickle version = next();
  if (version[version.root()].integer != stream_version) {
    fail_input("'{}' has version {} of torch.save's legacy format; only {} is supported", name,
               version.shown(version.root()), stream_version);
  }
  next();
  TorchContent content;
  content.pickle.emplace(next());
  const Pickle keys = next();
  std::map<std::string_view, TorchExtent> extents;
  std::map<std::string_view, const PickleStorage*> storages;
  for (const PickleStorage& storage : content.pickle->storages()) {
    storages.emplace(storage.key, &storage);
  }
  for (const PickleId id : keys.children(keys.root())) {
    const auto storage = storages.find(keys[id].text);
    std::int64_t count = 0;
    if (storage == storages.end() || extents.contains(storage->first)) {
      fail_input("'{}' lists the storage {}, which no tensor uses, or lists it twice", name,
                 keys.shown(id));
    }
    if (bytes.size() - at < sizeof count) fail_input("'{}' is truncated within its storages", name);
    std::memcpy(&count, bytes.data() + at, sizeof count);
    at += sizeof count;
    const std::uint64_t size = storage_bytes(*storage->second);
    if (count != storage->second->count || size > bytes.size() - at) {
      fail_input(
          "'{}' is truncated or damaged: its storage '{}' should have {} of {}; it has {}, and the "
          "file ends {} later",
          name, printable(storage->first), counted(storage->second->count, "element"),
          storage->second->type->name, count, counted(bytes.size() - at, "byte"));
    }
    extents[storage->first] = {at, size, std::nullopt};
    at += size;
  }
  if (at != bytes.size()) {
    fail_input("'{}' has {} after its last storage", name, counted(bytes.size() - at, "byte"));
  }
  for (const PickleStorage& storage : content.pickle->storages()) {
    const auto extent = extents.find(storage.key);
    if (extent == extents.end()) {
      fail_input("'{}' is incomplete: the storage '{}' is missing", name, printable(storage.key));
    }
    content.storages.push_back(extent->second);
  }
  return content;
}

}  // namespace

bool is_torch_file(const fs::path& path) {
  const File file(path, File::Mode::read);
  char first[32] = {};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), sizeof first));
  file.read_at(0, first, count);
  const std::string_view text(first, count);
  return text.starts_with("PK\3\4") || begins_stream(text);
}

TorchContent parse_torch_file(std::span<const std::byte> bytes, const std::string& name,
                              const PickleLimits& limits) {
  if (is_zip_archive(bytes)) return TorchZip(bytes, name, limits).take();
  if (begins_stream(as_text(bytes))) return parse_stream(bytes, name, limits);
  refuse_unknown(as_text(bytes), name);
}

}  // namespace trireme
