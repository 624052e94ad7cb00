// Concatenates the key tables of all sections from config/fields/.
#include "config/fields.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "config/fields/row.h"

namespace trireme {

Field::Field(std::string in, std::string called, FieldSlot (*at)(Config&), FieldLimits values,
             std::string measure, std::string meaning)
    : section(std::move(in)),
      name(std::move(called)),
      slot(at),
      limits(std::move(values)),
      unit(std::move(measure)),
      description(std::move(meaning)) {
  Config config;
  const FieldSlot place = slot(config);
  const auto* const choice = std::get_if<ChoiceSlot>(&place);
  if (!choice) return;
  for (const std::string_view offered : choice->names)
    if (!offered.empty()) limits.allowed.emplace_back(offered);
}

Field Field::by_family() const {
  Field changed = *this;
  changed.follows_family = true;
  return changed;
}

Field Field::of_weights() const {
  Field changed = *this;
  changed.changes_weights = true;
  return changed;
}

Field Field::also(std::string_view names) const {
  Field changed = *this;
  std::istringstream words{std::string(names)};
  for (std::string word; words >> word;) changed.aliases.push_back(word);
  return changed;
}

Field Field::formerly(std::string_view old) const {
  Field changed = *this;
  changed.former_name = old;
  return changed;
}

namespace {

const std::vector<Field>& table() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> result;
    for (const auto& of_section : {run_fields, model_fields, moe_fields, data_fields, train_fields,
                                   optimizer_fields, parallel_fields, checkpoint_fields})
      std::ranges::move(of_section(), std::back_inserter(result));
    return result;
  }();
  return fields;
}

}  // namespace

std::span<const Field> all_fields() {
  return table();
}

const std::vector<std::string>& section_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Field& field : table()) {
      if (result.empty() || result.back() != field.section) result.push_back(field.section);
    }
    return result;
  }();
  return names;
}

std::vector<std::string> weight_keys() {
  std::vector<std::string> keys;
  for (const Field& field : table())
    if (field.changes_weights) keys.push_back(field.key());
  return keys;
}

const Field* find_field(const std::string& section, const std::string& name) {
  const auto at = std::find_if(table().begin(), table().end(), [&](const Field& field) {
    return field.section == section &&
           (field.name == name || (field.former_name == name && !name.empty()));
  });
  return at == table().end() ? nullptr : &*at;
}

const Field* find_field(const std::string& key) {
  const std::size_t dot = key.find('.');
  return dot == std::string::npos ? nullptr : find_field(key.substr(0, dot), key.substr(dot + 1));
}

}  // namespace trireme
