// Helper for error messages about bad input.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace trireme {

// Returns the message of the error that `run` throws.
template <class Run>
std::string refusal_of(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
    return error.what();
  }
  return "accepted";
}

}  // namespace trireme
