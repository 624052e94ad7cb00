// The configuration of a run: the keys that docs/configuration.md lists, by their names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <trireme/export.h>

namespace trireme::v1 {

// A value: copies are independent. Reading one from several threads at once is safe.
// Everything here throws Error with ExitCode::bad_input for unknown keys, wrong types and values
// outside their range; the message names the place and the nearest key. What contradicts itself is
// refused where a Trainer is made.
class TRIREME_API Config {
 public:
  // All keys at their defaults.
  Config();

  // A TOML file, then overrides of the form "section.key=value" in order, as `trireme train` takes
  // them.
  static Config load(const std::string& file, const std::vector<std::string>& overrides = {});
  // The same from text; `name` stands for the file in messages.
  static Config parse(const std::string& toml, const std::string& name = "the configuration",
                      const std::vector<std::string>& overrides = {});

  // Sets a key as the command line does: set("train.iters", "100"), set("run.dir", "runs/mine"),
  // set("data.path", "[\"a\", \"b\"]"). After an error everything is as it was.
  Config& set(const std::string& key, const std::string& value);

  // Values as they count, with what follows from the model's family and sizes. A key of another
  // type is an error; number() also reads integers.
  std::int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
  std::string text(const std::string& key) const;
  bool flag(const std::string& key) const;

  // The whole configuration; parse() reads it back to the same values.
  std::string to_toml() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }  // the library's own

 private:
  explicit Config(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace trireme::v1
