// The C interface: configurations.
#include <nlohmann/json.hpp>

#include "config/fields.h"
#include "library/c_handles.h"

namespace trireme::c {

trireme_config* config_handle(const Config& config) {
  return new trireme_config{v1::Config::parse(to_toml(config))};
}

namespace {

template <class T>
nlohmann::ordered_json json_of(T* value) {
  return *value;
}
nlohmann::ordered_json json_of(const ChoiceSlot& choice) {
  return std::string(choice.name());
}

std::string config_json(const Config& config) {
  Config copy = config;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Field& field : all_fields())
    json[field.section][field.name] =
        std::visit([](auto value) { return json_of(value); }, field.slot(copy));
  return json.dump();
}

}  // namespace
}  // namespace trireme::c

using namespace trireme::c;

trireme_status trireme_config_parse(const char* toml, const char* name,
                                    const char* const* overrides, size_t count,
                                    trireme_config** config) {
  return guarded([&] {
    *config = new trireme_config{
        trireme::v1::Config::parse(text_of(toml, "the text of the configuration"),
                                   name ? name : "the configuration", texts_of(overrides, count))};
  });
}

trireme_status trireme_config_load(const char* file, const char* const* overrides, size_t count,
                                   trireme_config** config) {
  return guarded([&] {
    *config = new trireme_config{trireme::v1::Config::load(
        text_of(file, "the name of the configuration's file"), texts_of(overrides, count))};
  });
}

void trireme_config_close(trireme_config* config) {
  delete config;
}

trireme_status trireme_config_toml(const trireme_config* config, char** text) {
  return guarded([&] { *text = allocate_text(config->config.to_toml()); });
}

trireme_status trireme_config_json(const trireme_config* config, char** text) {
  return guarded([&] { *text = allocate_text(config_json(config->values())); });
}
