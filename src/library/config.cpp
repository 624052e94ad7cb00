// The public configuration: text and overrides, reparsed whenever an override is added.
#include <trireme/config.h>

#include "base/error.h"
#include "config/config_file.h"
#include "config/fields.h"
#include "library/impl.h"

namespace trireme::v1 {
namespace {

std::shared_ptr<const Config::Impl> parsed(std::string toml, std::string name,
                                           std::vector<std::string> overrides) {
  auto impl = std::make_shared<Config::Impl>(
      Config::Impl{std::move(toml), std::move(name), std::move(overrides), {}});
  impl->config = parse_config(impl->toml, impl->name, impl->overrides);
  return impl;
}

template <class T>
T value_of(const trireme::Config& config, const std::string& key) {
  const Field* const field = find_field(key);
  if (!field)
    fail_input("there is no key \"{}\": docs/configuration.md lists them, as section.key", key);
  trireme::Config copy = config;
  const FieldSlot slot = field->slot(copy);
  if (const auto* found = std::get_if<T*>(&slot)) return **found;
  if constexpr (std::is_same_v<T, std::string>) {
    if (const auto* choice = std::get_if<ChoiceSlot>(&slot)) return std::string(choice->name());
  }
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* whole = std::get_if<std::int64_t*>(&slot)) return static_cast<double>(**whole);
  }
  T wanted{};
  fail_input("{} has type {}, but the program requests {}", key, type_name(slot),
             type_name(&wanted));
}

}  // namespace

Config::Config() : impl_(parsed("", "the configuration", {})) {}

Config Config::load(const std::string& file, const std::vector<std::string>& overrides) {
  return at_the_border([&] { return Config(parsed(read_config_file(file), file, overrides)); });
}

Config Config::parse(const std::string& toml, const std::string& name,
                     const std::vector<std::string>& overrides) {
  return at_the_border([&] { return Config(parsed(toml, name, overrides)); });
}

Config& Config::set(const std::string& key, const std::string& value) {
  std::vector<std::string> overrides = impl_->overrides;
  overrides.push_back(key + "=" + value);
  impl_ = at_the_border([&] { return parsed(impl_->toml, impl_->name, overrides); });
  return *this;
}

std::int64_t Config::integer(const std::string& key) const {
  return at_the_border([&] { return value_of<std::int64_t>(impl_->config, key); });
}
double Config::number(const std::string& key) const {
  return at_the_border([&] { return value_of<double>(impl_->config, key); });
}
std::string Config::text(const std::string& key) const {
  return at_the_border([&] { return value_of<std::string>(impl_->config, key); });
}
bool Config::flag(const std::string& key) const {
  return at_the_border([&] { return value_of<bool>(impl_->config, key); });
}

std::string Config::to_toml() const {
  return trireme::to_toml(impl_->config);
}

}  // namespace trireme::v1
