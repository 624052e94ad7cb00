// Adds a check to every option whose value the parser reads as a double.
#include "cli/finite.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme::cli {
namespace {

std::string problem_of(const std::string& text) {
  double value = 0;
  if (!CLI::detail::lexical_cast(text, value) || std::isfinite(value)) return "";
  return fmt::format("{} is not finite", text);
}

}  // namespace

void require_finite_numbers(CLI::App& app) {
  const CLI::Validator finite([](std::string& text) { return problem_of(text); }, "");
  for (CLI::Option* option : app.get_options())
    if (option->get_type_name().starts_with("FLOAT")) option->check(finite);
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    require_finite_numbers(*sub);
}

}  // namespace trireme::cli
