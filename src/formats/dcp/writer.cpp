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

// Starts a part of the last item in the current file.
void DcpWriter::begin_file_part(Part part, const TorchValue& value, std::uint64_t bytes) {
  if (at_ > 0 && at_ + bytes > max_file_bytes_) end_file();
  if (!file_) {
    file_name_ = fmt::format("__0_{}.distcp", files_++);
    file_.emplace(folder_ / file_name_);
  }
  part.file = file_name_;
  part.begin = at_;
  items_.back().parts.push_back(std::move(part));
  part_.emplace(*file_, at_, value);
  written_ = 0;
}

void DcpWriter::begin_parts(const DcpPath& path, const TorchTensor& tensor) {
  end_part();
  items_.push_back({path, tensor, {}});
}

void DcpWriter::begin_part(const std::vector<std::int64_t>& offsets,
                           const std::vector<std::int64_t>& sizes) {
  end_part();
  TRIREME_CHECK(items_.back().tensor);
  const TorchTensor part{items_.back().tensor->dtype, sizes};
  begin_file_part({offsets, sizes, {}, 0, 0}, {part}, part.bytes());
}

void DcpWriter::begin(const DcpPath& path, const TorchTensor& tensor) {
  begin_parts(path, tensor);
  begin_part(std::vector<std::int64_t>(tensor.shape.size(), 0), tensor.shape);
}

void DcpWriter::write(const void* bytes, std::uint64_t count) {
  part_->write(0, written_, bytes, count);
  written_ += count;
}

void DcpWriter::add(const DcpPath& path, const TorchValue& value) {
  end_part();
  items_.push_back({path, std::nullopt, {}});
  begin_file_part({}, value, 0);
}

void DcpWriter::add_copy(const DcpPath& path) {
  end_part();
  TRIREME_CHECK(items_.back().tensor);
  Item copy = items_.back();
  copy.path = path;
  items_.push_back(std::move(copy));
}

void DcpWriter::end_part() {
  if (!part_) return;
  Part& part = items_.back().parts.back();
  part.bytes = part_->finish();
  at_ += part.bytes;
  part_.reset();
}

void DcpWriter::end_file() {
  file_->keep();
  file_.reset();
  at_ = 0;
}

void DcpWriter::put_tensor(PickleText& text, const Item& item) {
  text.put_object(classes, "TensorStorageMetadata");
  text.begin_dict();
  text.put("properties");
  put_properties(text, *item.tensor);
  text.put("size");
  put_size(text, item.tensor->shape);
  text.put("chunks");
  text.begin_list();
  for (const Part& part : item.parts) {
    text.put_object(classes, "ChunkStorageMetadata");
    text.begin_dict();
    text.put("offsets");
    put_size(text, part.offsets);
    text.put("sizes");
    put_size(text, part.sizes);
    text.end_dict();
    text.build();
  }
  text.end_list();
  text.end_dict();
  text.build();
}

// The key of a part, and its location.
void DcpWriter::put_place(PickleText& text, const Item& item, std::size_t number) {
  const Part& part = item.parts[number];
  text.put_object(classes, "MetadataIndex");
  text.begin_dict();
  text.put("fqn");
  text.put(dcp_name(item.path));
  if (item.tensor) {
    text.put("offset");
    put_size(text, part.offsets);
    text.put("index");
    text.put(static_cast<std::int64_t>(number));
  }
  text.end_dict();
  text.build();
  text.put_object(files, "_StorageInfo");
  text.begin_dict();
  text.put("relative_path");
  text.put(part.file);
  text.put("offset");
  text.put(static_cast<std::int64_t>(part.begin));
  text.put("length");
  text.put(static_cast<std::int64_t>(part.bytes));
  text.end_dict();
  text.build();
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
      put_tensor(text, item);
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
  for (const Item& item : items_)
    for (std::size_t part = 0; part < item.parts.size(); ++part) put_place(text, item, part);
  text.end_dict();
  text.put("version");
  text.put("1.0.0");
  text.end_dict();
  text.build();
  return text.take();
}

void DcpWriter::finish() {
  end_part();
  if (file_) end_file();
  write_file_durably(folder_ / dcp_metadata_file, metadata());
}

}  // namespace trireme
