// Writes each item as a torch.save file, and the metadata as a pickle of DCP's classes.
#include "formats/dcp/writer.h"

#include "base/error.h"
#include "formats/dcp/metadata.h"
#include "formats/torch/pickle_writer.h"

namespace trireme {
namespace {

const std::string classes = "torch.distributed.checkpoint.metadata";
const std::string files = "torch.distributed.checkpoint.filesystem";

void put_size(PickleText& text, const std::vector<std::int64_t>& sizes) {
  text.put_name("torch", "Size");
  text.begin_tuple();
  text.put_tuple(sizes);
  text.end_tuple();
  text.call();
}

void put_properties(PickleText& text, const TorchTensor& tensor) {
  text.put_object(classes, "TensorProperties");
  text.begin_tuple();
  text.put_name("torch", torch_type(tensor.dtype).dtype);
  text.put_name("torch.serialization", "_get_layout");
  text.begin_tuple();
  text.put("torch.strided");
  text.end_tuple();
  text.call();
  text.put(false);  // requires_grad
  text.put_name(classes, "_MEM_FORMAT_ENCODING");
  text.put_tuple({0});
  text.call();
  text.put(false);  // pin_memory
  text.end_tuple();
  text.build();
}

// Describes the whole tensor as one chunk.
void put_tensor(PickleText& text, const TorchTensor& tensor) {
  text.put_object(classes, "TensorStorageMetadata");
  text.begin_dict();
  text.put("properties");
  put_properties(text, tensor);
  text.put("size");
  put_size(text, tensor.shape);
  text.put("chunks");
  text.begin_list();
  text.put_object(classes, "ChunkStorageMetadata");
  text.begin_dict();
  text.put("offsets");
  put_size(text, std::vector<std::int64_t>(tensor.shape.size(), 0));
  text.put("sizes");
  put_size(text, tensor.shape);
  text.end_dict();
  text.build();
  text.end_list();
  text.end_dict();
  text.build();
}

}  // namespace

std::string dcp_name(const DcpPath& path) {
  std::string name;
  for (const auto& key : path) {
    if (!name.empty()) name += '.';
    const auto* text = std::get_if<std::string>(&key);
    name += text ? *text : std::to_string(std::get<std::int64_t>(key));
  }
  return name;
}

DcpWriter::DcpWriter(const fs::path& folder, std::uint64_t max_file_bytes)
    : folder_(folder), max_file_bytes_(max_file_bytes) {}

DcpWriter::~DcpWriter() = default;

void DcpWriter::begin_item(const DcpPath& path, const TorchValue& value, std::uint64_t bytes) {
  end_item();
  if (at_ > 0 && at_ + bytes > max_file_bytes_) end_file();
  if (!file_) {
    file_name_ = fmt::format("__0_{}.distcp", files_++);
    file_.emplace(folder_ / file_name_);
  }
  items_.push_back({path, file_name_, at_, 0, std::nullopt});
  item_.emplace(*file_, at_, value);
  written_ = 0;
}

void DcpWriter::begin(const DcpPath& path, const TorchTensor& tensor) {
  begin_item(path, {tensor}, tensor.bytes());
  items_.back().tensor = tensor;
}

void DcpWriter::write(const void* bytes, std::uint64_t count) {
  item_->write(0, written_, bytes, count);
  written_ += count;
}

void DcpWriter::add(const DcpPath& path, const TorchValue& value) {
  begin_item(path, value, 0);
}

void DcpWriter::add_copy(const DcpPath& path) {
  end_item();
  TRIREME_CHECK(items_.back().tensor);
  Item copy = items_.back();
  copy.path = path;
  items_.push_back(std::move(copy));
}

void DcpWriter::end_item() {
  if (!item_) return;
  items_.back().bytes = item_->finish();
  at_ += items_.back().bytes;
  item_.reset();
}

void DcpWriter::end_file() {
  file_->keep();
  file_.reset();
  at_ = 0;
}

std::string DcpWriter::metadata() const {
  PickleText text;
  text.put_object(classes, "Metadata");
  text.begin_dict();
  text.put("state_dict_metadata");
  text.begin_dict();
  for (const Item& item : items_) {
    text.put(dcp_name(item.path));
    if (item.tensor) {
      put_tensor(text, *item.tensor);
    } else {
      text.put_object(classes, "BytesStorageMetadata");
    }
  }
  text.end_dict();
  text.put("planner_data");
  text.begin_dict();
  for (const Item& item : items_) {
    text.put(dcp_name(item.path));
    text.begin_tuple();
    for (const auto& key : item.path) std::visit([&](const auto& k) { text.put(k); }, key);
    text.end_tuple();
  }
  text.end_dict();
  text.put("storage_data");
  text.begin_dict();
  for (const Item& item : items_) {
    text.put_object(classes, "MetadataIndex");
    text.begin_dict();
    text.put("fqn");
    text.put(dcp_name(item.path));
    if (item.tensor) {
      text.put("offset");
      put_size(text, std::vector<std::int64_t>(item.tensor->shape.size(), 0));
      text.put("index");
      text.put(std::int64_t{0});
    }
    text.end_dict();
    text.build();
    text.put_object(files, "_StorageInfo");
    text.begin_dict();
    text.put("relative_path");
    text.put(item.file);
    text.put("offset");
    text.put(static_cast<std::int64_t>(item.begin));
    text.put("length");
    text.put(static_cast<std::int64_t>(item.bytes));
    text.end_dict();
    text.build();
  }
  text.end_dict();
  text.put("version");
  text.put("1.0.0");
  text.end_dict();
  text.build();
  return text.take();
}

void DcpWriter::finish() {
  end_item();
  if (file_) end_file();
  write_file_durably(folder_ / dcp_metadata_file, metadata());
}

}  // namespace trireme
