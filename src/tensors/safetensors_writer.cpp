// Plans the layout, writes the header, then writes tensor bytes in any order.
#include "tensors/safetensors_writer.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "tensors/safetensors.h"

namespace trireme {
namespace {

std::uint64_t byte_size(const SafetensorsTensor& tensor) {
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(tensor.dtype));
  for (const std::int64_t dim : tensor.shape) {
    TRIREME_CHECK(dim >= 0 &&
                  !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes));
  }
  return bytes;
}

// Indices by descending element size; stable.
std::vector<std::size_t> layout_order(const std::vector<SafetensorsTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{},
                           [&](std::size_t i) { return size_of(tensors[i].dtype); });
  return order;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const fs::path& path, std::vector<SafetensorsTensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path), begin_(tensors.size()), bytes_(tensors.size()) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::string text = header.dump();
  text.pop_back();
  std::set<std::string_view> names{"__metadata__"};
  std::uint64_t next = 0;
  for (const std::size_t i : layout_order(tensors)) {
    const SafetensorsTensor& tensor = tensors[i];
    TRIREME_CHECK(names.insert(tensor.name).second);
    begin_[i] = next;
    bytes_[i] = byte_size(tensor);
    next += bytes_[i];
    const nlohmann::ordered_json entry{{"dtype", safetensors_type(tensor.dtype)},
                                       {"shape", tensor.shape},
                                       {"data_offsets", {begin_[i], next}}};
    // Appended as text: an ordered_json object would search each name linearly.
    text += (text.size() > 1 ? "," : "") + nlohmann::json(tensor.name).dump() + ":" + entry.dump();
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > max_safetensors_header) {
    fail(
        "cannot write '{}': the header of its {} tensors has {} bytes, but readers accept at most "
        "{}",
        path.string(), tensors.size(), text.size(), max_safetensors_header);
  }
  const std::uint64_t length = text.size();
  header_.assign(reinterpret_cast<const char*>(&length), sizeof length);
  header_ += text;
  for (std::uint64_t& begin : begin_) begin += header_.size();
  file_bytes_ = header_.size() + next;
  file_.file().write_at(0, header_.data(), header_.size());
}

void SafetensorsWriter::write(std::size_t tensor, std::uint64_t offset, const void* bytes,
                              std::uint64_t count) {
  TRIREME_CHECK(offset <= bytes_[tensor] && count <= bytes_[tensor] - offset);
  file_.file().write_at(begin_[tensor] + offset, bytes, count);
  written_ += count;
}

void SafetensorsWriter::finish() {
  TRIREME_CHECK(written_ + header_.size() == file_bytes_);
  file_.keep();
}

}  // namespace trireme
