// Implementations of the public library's classes; headers outside src/library must not include
// this file.
#pragma once

#include <trireme/config.h>
#include <trireme/data.h>
#include <trireme/error.h>
#include <trireme/job.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/as_error.h"
#include "base/error.h"
#include "config/config.h"
#include "data/dataset.h"
#include "runtime/join.h"

namespace trireme {

// Wrapper for public functions: converts internal errors to those of the library. Exceptions thrown
// by the caller's own functions pass through unchanged.
template <class Body>
auto at_the_border(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw v1::Error(static_cast<v1::ExitCode>(error.code()), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    const Error ours = as_error(error);
    throw v1::Error(static_cast<v1::ExitCode>(ours.code()), ours.what());
  }
}

namespace v1 {

struct Config::Impl {
  std::string toml, name;  // as given
  std::vector<std::string> overrides;
  trireme::Config config;  // the parsed configuration
};

struct Job::Impl {
  JoinedJob joined;
  bool left = false;

  Communicator& world() { return joined.transport().world(); }
  bool alone() const { return joined.transport().place().size == 1; }
};

}  // namespace v1

// Wraps a public dataset as an internal one whose samples are checked. `config` is a trainer's,
// with its vocabulary known.
std::shared_ptr<const Dataset> adapt_dataset(std::shared_ptr<const v1::Dataset> dataset,
                                             const Config& config);

}  // namespace trireme
