// The configuration of a run, with the keys of docs/configuration.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <trireme/export.h>

namespace trireme::v1 {

// A value type: copies are independent, and several threads may read one at the same time.
// All functions throw Error with ExitCode::bad_input for unknown keys, wrong types and values out
// of range; the message names the place and the nearest key. Settings that contradict each other
// are rejected by the constructor of Trainer.
class TRIREME_API Config {
 public:
  // All keys at their defaults.
  Config();

  // Reads a TOML file, then applies overrides "section.key=value" in order, as `trireme train`
  // does.
  static Config load(const std::string& file, const std::vector<std::string>& overrides = {});
  // The same for TOML text; error messages call it `name`.
  static Config parse(const std::string& toml, const std::string& name = "the configuration",
                      const std::vector<std::string>& overrides = {});

  // Sets a key as the command line does: set("train.iters", "100"), set("run.dir", "runs/mine"),
  // set("data.path", "[\"a\", \"b\"]"). An error leaves the configuration unchanged.
  Config& set(const std::string& key, const std::string& value);

  // Effective values, including those derived from the model's family and sizes. Throws if the key
  // has another type; number() also reads integers.
  std::int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
  std::string text(const std::string& key) const;
  bool flag(const std::string& key) const;

  // The whole configuration as TOML; parse() reads it back to the same values.
  std::string to_toml() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }  // internal

 private:
  explicit Config(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace trireme::v1
