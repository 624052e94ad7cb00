// The interface of the plug-in: what it throws becomes a fault.
#include "data/arrow/plugin.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include "data/arrow/source.h"
#include "data/arrow/status.h"

namespace {

using namespace trireme::arrow_plugin;

// Runs `body`; what it throws becomes the fault and `otherwise` the result.
template <class Result, class Body>
Result guarded(trireme::ArrowPluginFault* fault, Result otherwise, const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::snprintf(fault->reason, sizeof(fault->reason), "%s", error.what());
  } catch (...) {
    std::snprintf(fault->reason, sizeof(fault->reason), "the Arrow library failed");
  }
  return otherwise;
}

}  // namespace

namespace trireme {

struct ArrowPluginFile {
  std::unique_ptr<Source> source;
};

struct ArrowPluginCursor {
  const Columns& columns;
  std::unique_ptr<Batches> batches;
};

}  // namespace trireme

namespace {

using namespace trireme;

ArrowPluginFile* open_file(const char* path, const char* const* columns, int count,
                           ArrowPluginFault* fault) {
  return guarded<ArrowPluginFile*>(fault, nullptr, [&] {
    return new ArrowPluginFile{open_source(path, Columns(columns, columns + count))};
  });
}

std::int64_t nulls_of(const ArrowPluginFile* file, std::int64_t group, int column) {
  ArrowPluginFault ignored;
  return guarded<std::int64_t>(&ignored, -1, [&] { return file->source->nulls(group, column); });
}

ArrowPluginCursor* begin_group(ArrowPluginFile* file, std::int64_t group, ArrowPluginFault* fault) {
  return guarded<ArrowPluginCursor*>(fault, nullptr, [&] {
    return new ArrowPluginCursor{file->source->columns(), file->source->read(group)};
  });
}

int next_rows(ArrowPluginCursor* cursor, const ArrowPluginRows** rows, ArrowPluginFault* fault) {
  return guarded(fault, -1, [&] {
    auto batch = cursor->batches->next();
    if (!batch) return 0;
    *rows = texts_of(std::move(batch), cursor->columns).release();
    return 1;
  });
}

const ArrowPlugin plugin = {
    .version = arrow_plugin_version,
    .library = "Arrow " ARROW_VERSION_STRING,
    .open = open_file,
    .close = [](ArrowPluginFile* file) { delete file; },
    .groups = [](const ArrowPluginFile* file) { return file->source->groups(); },
    .nulls = nulls_of,
    .begin = begin_group,
    .next = next_rows,
    .end = [](ArrowPluginCursor* cursor) { delete cursor; },
    .release = [](const ArrowPluginRows* rows) { delete static_cast<const Rows*>(rows); },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const trireme::ArrowPlugin* trireme_arrow() {
  return &plugin;
}
