// Formats the table of tensors as text and as JSON.
#include "cli/inspect/report.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/printable.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_name = 1000;

Json to_json(const InspectRow& row) {
  Json json{{"name", row.name}, {"dtype", row.type}, {"shape", row.shape}, {"bytes", row.bytes}};
  if (row.stats) {
    json.update({{"min", row.stats->min()},
                 {"max", row.stats->max()},
                 {"mean", row.stats->mean()},
                 {"nan", row.stats->nans()},
                 {"inf", row.stats->infinities()}});
  }
  return json;
}

}  // namespace

void print_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    fail("cannot write to standard output");
  }
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  for (; value >= 999.5 && unit < 5; ++unit) value /= 1000;
  return fmt::format("{:.3g} {}", value, units[unit]);
}

namespace {

std::string table(const std::vector<InspectRow>& rows, bool stats) {
  std::size_t name_width = 4, shape_width = 5;
  std::vector<std::string> names, shapes;
  for (const InspectRow& row : rows) {
    names.push_back(printable(row.name, longest_name));
    shapes.push_back(Json(row.shape).dump());
    name_width = std::max(name_width, names.back().size());
    shape_width = std::max(shape_width, shapes.back().size());
  }
  std::string out = fmt::format("{:{}}  {:8}  {:{}}  {:>8}", "name", name_width, "type", "shape",
                                shape_width, "size");
  if (stats) {
    out +=
        fmt::format("  {:>11}  {:>11}  {:>11}  {:>6}  {:>6}", "min", "max", "mean", "nan", "inf");
  }
  out += "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const InspectRow& row = rows[i];
    out += fmt::format("{:{}}  {:8}  {:{}}  {:>8}", names[i], name_width, row.type, shapes[i],
                       shape_width, human_bytes(row.bytes));
    if (row.stats) {
      out += fmt::format("  {:11.4g}  {:11.4g}  {:11.4g}  {:6}  {:6}", row.stats->min(),
                         row.stats->max(), row.stats->mean(), row.stats->nans(),
                         row.stats->infinities());
    }
    out += "\n";
  }
  return out;
}

}  // namespace

void add_stats(InspectRow& row, DType dtype, std::int64_t count, const ReadElements& read) {
  constexpr std::int64_t piece = std::int64_t{16} << 20;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>(std::min(piece, count) * size_of(dtype)));
  if (!row.stats) row.stats.emplace();
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const std::int64_t end = std::min(count, begin + piece);
    read(begin, end, memory.get());
    row.stats->add(dtype, memory.get(), end - begin);
  }
}

void report(const InspectOptions& options, const std::string& text, Json json,
            const std::vector<InspectRow>& rows) {
  if (options.as_json) {
    if (options.tensors) {
      Json& list = json["tensors"] = Json::array();
      for (const InspectRow& row : rows) list.push_back(to_json(row));
    }
    // Names in other programs' files may contain arbitrary bytes.
    print_out(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  print_out(printable_message(text) + (options.tensors ? "\n" + table(rows, options.stats) : ""));
}

}  // namespace trireme::cli
