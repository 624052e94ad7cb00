// dlopen of the plug-in, and what is said where it or a file does not fit.
#include "data/documents/arrow_file.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/beside_program.h"
#include "base/error.h"
#include "data/documents/byte_source.h"
#include "data/documents/json_texts.h"

namespace trireme {
namespace {

std::filesystem::path arrow_plugin_path() {
  return find_beside_program(arrow_plugin_file, TRIREME_PLUGIN_DIR);
}

const ArrowPlugin* load_arrow_plugin(const std::string& for_file) {
  const std::filesystem::path path = arrow_plugin_path();
  if (path.empty()) {
    fail_input(
        "'{}' is a Parquet or Arrow file, which this build of trireme cannot read: {} is not next "
        "to the program. Run `pip install pyarrow` and build again (docs/data.md), or convert the "
        "file to JSON lines",
        for_file, arrow_plugin_file);
  }
  // Local: what other libraries make of the same names is their own affair.
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin) {
    fail_input(
        "'{}' needs the Arrow library, which cannot be loaded: {}. Install the pyarrow that "
        "trireme was built with in the same place, name its folder in LD_LIBRARY_PATH, or build "
        "again",
        for_file, dlerror());
  }
  const auto entry = reinterpret_cast<ArrowPluginEntry>(dlsym(plugin, arrow_plugin_symbol));
  if (!entry || entry()->version != arrow_plugin_version) {
    fail_input("{} belongs to a different version of trireme: build or install both together",
               path.string());
  }
  return entry();
}

const ArrowPlugin& arrow_plugin(const std::string& for_file) {
  static const ArrowPlugin* const plugin = load_arrow_plugin(for_file);
  return *plugin;
}

// For calls that only follow a file's opening.
const ArrowPlugin& loaded() {
  return arrow_plugin("");
}

}  // namespace

RowBatch::~RowBatch() {
  loaded().release(rows_);
}

ArrowFile::ArrowFile(const std::string& path, const std::vector<std::string>& columns)
    : path_(path), columns_(columns) {
  std::vector<const char*> names;
  for (const std::string& column : columns_) names.push_back(column.c_str());
  ArrowPluginFault fault;
  file_ =
      arrow_plugin(path).open(path.c_str(), names.data(), static_cast<int>(names.size()), &fault);
  if (file_) return;
  const std::string reason = fault.reason;
  const bool column = reason.find("column \"") != reason.npos;
  fail_input("'{}': {}{}", path, reason, column ? fmt::format(" ({} chooses)", key_choice) : "");
}

ArrowFile::~ArrowFile() {
  loaded().close(file_);
}

std::int64_t ArrowFile::groups() const {
  return loaded().groups(file_);
}

std::optional<std::int64_t> ArrowFile::nulls(std::int64_t group, std::size_t column) const {
  const std::int64_t count = loaded().nulls(file_, group, static_cast<int>(column));
  if (count < 0) return std::nullopt;
  return count;
}

ArrowFile::Cursor::Cursor(const ArrowFile& file, std::int64_t group) : file_(file), group_(group) {
  ArrowPluginFault fault;
  cursor_ = loaded().begin(file.file_, group, &fault);
  if (!cursor_) fail_input("'{}' row group {}: {}", file.path_, group, fault.reason);
}

ArrowFile::Cursor::~Cursor() {
  loaded().end(cursor_);
}

std::shared_ptr<const RowBatch> ArrowFile::Cursor::next() {
  ArrowPluginFault fault;
  const ArrowPluginRows* rows = nullptr;
  const int result = loaded().next(cursor_, &rows, &fault);
  if (result < 0) fail_input("'{}' row group {}: {}", file_.path_, group_, fault.reason);
  return result > 0 ? std::make_shared<RowBatch>(rows) : nullptr;
}

bool is_arrow_file(const std::string& path) {
  char first[6] = {};
  const std::string_view bytes(first, open_byte_range(path, 0, sizeof(first))->read(first, 6));
  return bytes.starts_with("PAR1") || bytes == "ARROW1" || bytes.starts_with("\xff\xff\xff\xff");
}

bool has_arrow_plugin() {
  return !arrow_plugin_path().empty();
}

}  // namespace trireme
