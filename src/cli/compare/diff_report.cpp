// Formats a comparison as text and as JSON.
#include "cli/compare/diff_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/printable.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

// Formats an element's indices as "[3, 7]".
std::string indices(const Shape& shape, std::int64_t element) {
  Shape at = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    at[i] = element % shape[i];
    element /= shape[i];
  }
  return at.text();
}

std::string types_text(const TensorPair& pair) {
  const auto a = name_of(pair.a->dtype), b = name_of(pair.b->dtype);
  return a == b ? std::string(a) : fmt::format("{} | {}", a, b);
}

std::string held_text(const HeldTensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype), tensor.shape.text());
}

// Why an unread tensor differs.
std::string unread_text(const TensorPair& pair) {
  if (!pair.b) return fmt::format("only in A: {}", held_text(*pair.a));
  if (!pair.a) return fmt::format("only in B: {}", held_text(*pair.b));
  return fmt::format("{} | {}", held_text(*pair.a), held_text(*pair.b));
}

std::string element_text(const TensorPair& pair, const TensorDifference::Place& place) {
  return fmt::format("{} {} | {}", indices(pair.a->shape, place.element), place.a, place.b);
}

// Completes the sentence "the first is ...".
std::string first_text(const TensorPair& pair) {
  if (!pair.difference) return unread_text(pair);
  const TensorDifference& difference = *pair.difference;
  if (difference.differing() == 0) {
    return fmt::format("{}, the same values", types_text(pair));
  }
  return fmt::format("{} {}, first difference at {}", types_text(pair), pair.a->shape.text(),
                     element_text(pair, difference.first()));
}

std::string place_text(const Contents& contents) {
  const std::string step = contents.state ? fmt::format(", step {}", contents.state->step) : "";
  return fmt::format("{} ({}{})", printable_message(contents.folder.string()), contents.kind, step);
}

std::vector<std::string> cells_of(const TensorPair& pair) {
  if (!pair.difference) return {printable(pair.name), unread_text(pair)};
  const TensorDifference& d = *pair.difference;
  return {printable(pair.name),
          types_text(pair),
          fmt::format("{} of {}", d.differing(), d.elements()),
          d.not_finite() > 0 ? fmt::format("{} not finite", d.not_finite())
                             : fmt::format("{:.3g}", d.largest_absolute()),
          fmt::format("{:.3g}", d.largest_relative()),
          d.largest().element < 0 ? (d.rounded() ? "rounded" : "same values")
                                  : element_text(pair, d.largest())};
}

std::string table_text(const std::vector<TensorPair>& pairs, std::size_t rows) {
  if (rows == 0) return "";
  std::vector<std::vector<std::string>> lines{
      {"tensor", "type", "elements differ", "absolute", "relative", "largest at, A | B"}};
  for (std::size_t i = 0; i < rows; ++i) lines.push_back(cells_of(pairs[i]));
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i + 1 < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  std::string text = "\n";
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i)
      text += i + 1 < line.size() ? fmt::format("{:{}}  ", line[i], widths[i]) : line[i];
    text += "\n";
  }
  if (rows < pairs.size())
    text += fmt::format("and {} more with smaller differences: --tensors lists all\n",
                        pairs.size() - rows);
  return text;
}

std::string values_text(const std::vector<ValuePair>& values, const std::string& title) {
  if (values.empty()) return "";
  std::string text = "\n" + title + "\n";
  const auto shown = [](const std::string& value) {
    return value.empty() ? std::string("none") : printable(value);
  };
  for (const ValuePair& value : values)
    text += fmt::format("  {}: {} | {}\n", printable(value.name), shown(value.a), shown(value.b));
  return text;
}

Json to_json(const Contents& contents) {
  Json json{{"path", contents.folder.string()}, {"kind", contents.kind}};
  json["note"] = contents.note;
  json["step"] = contents.state ? Json(contents.state->step) : Json(nullptr);
  return json;
}

Json to_json(const std::optional<HeldTensor>& tensor) {
  if (!tensor) return nullptr;
  return {{"dtype", name_of(tensor->dtype)},
          {"shape", std::vector(tensor->shape.begin(), tensor->shape.end())}};
}

Json to_json(const TensorDifference::Place& place) {
  if (place.element < 0) return nullptr;
  return {{"element", place.element}, {"a", place.a}, {"b", place.b}};
}

Json to_json(const TensorPair& pair) {
  Json json{{"name", pair.name}, {"a", to_json(pair.a)}, {"b", to_json(pair.b)}};
  if (!pair.difference) return json;
  const TensorDifference& d = *pair.difference;
  json.update({{"elements", d.elements()},
               {"differing", d.differing()},
               {"not_finite", d.not_finite()},
               {"largest_absolute", d.largest_absolute()},
               {"largest_relative", d.largest_relative()},
               {"rounded", d.rounded()},
               {"first", to_json(d.first())},
               {"largest", to_json(d.largest())}});
  return json;
}

Json to_json(const std::vector<ValuePair>& values) {
  Json json = Json::object();
  for (const ValuePair& value : values) json[value.name] = {value.a, value.b};
  return json;
}

}  // namespace

std::string verdict_text(const Comparison& found) {
  if (found.is_equal()) {
    const std::string rounded =
        found.rounded == 0 ? "" : fmt::format(", {} of them rounded", found.rounded);
    return fmt::format("equal: {}, {}{}", counted(found.tensors, "tensor"),
                       counted(found.elements, "element"), rounded);
  }
  std::vector<std::string> parts;
  if (!found.differing.empty()) {
    const auto differing = static_cast<std::int64_t>(found.differing.size());
    parts.push_back(fmt::format("{} of {}", differing, counted(found.equal + differing, "tensor")));
  }
  if (!found.positions.empty()) parts.push_back(counted(found.positions.size(), "position"));
  if (!found.model.empty()) {
    const ValuePair& setting = found.model.front();
    parts.push_back(fmt::format("{} of the model (as {}: {} | {})",
                                counted(found.model.size(), "setting"), setting.name, setting.a,
                                setting.b));
  }
  std::string text = "different: ";
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  if (const TensorPair* first = found.first()) {
    text += fmt::format("\nfirst in the order of the forward pass: '{}', {}",
                        printable(first->name), first_text(*first));
  }
  return text;
}

std::string comparison_text(const Contents& a, const Contents& b, const Comparison& found,
                            std::size_t most_rows) {
  std::string text =
      fmt::format("A: {}\nB: {}\n{}\n", place_text(a), place_text(b), verdict_text(found));
  for (const auto& [side, contents] : {std::pair{"A", &a}, {"B", &b}})
    if (!contents->note.empty())
      text += fmt::format("note on {}: {}\n", side, printable_message(contents->note));
  if (found.lacks_states) {
    text += fmt::format("only weights were compared: {} no optimizer states\n",
                        a.state   ? "B has"
                        : b.state ? "A has"
                                  : "neither has");
  }
  text += table_text(found.differing, std::min(most_rows, found.differing.size()));
  text += values_text(found.positions, "positions, A | B:");
  text += values_text(found.model, "settings of the model that change results, A | B:");
  text += values_text(found.settings, "other settings, which do not change results, A | B:");
  return text;
}

std::string comparison_json(const Contents& a, const Contents& b, const Comparison& found) {
  Json tensors = Json::array();
  for (const TensorPair& pair : found.differing) tensors.push_back(to_json(pair));
  const TensorPair* first = found.first();
  const Json json{{"equal", found.is_equal()},
                  {"a", to_json(a)},
                  {"b", to_json(b)},
                  {"compared_tensors", found.tensors},
                  {"compared_elements", found.elements},
                  {"equal_tensors", found.equal},
                  {"rounded_tensors", found.rounded},
                  {"only_weights", found.lacks_states},
                  {"first", first ? Json(first->name) : Json(nullptr)},
                  {"tensors", std::move(tensors)},
                  {"positions", to_json(found.positions)},
                  {"model", to_json(found.model)},
                  {"settings", to_json(found.settings)}};
  // Names in other programs' files may contain arbitrary bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trireme::cli
