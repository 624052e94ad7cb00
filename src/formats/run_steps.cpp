// Lists step folders and formats advice.
#include "formats/run_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/counted.h"

namespace trireme {
namespace {

// Numeric order: "iter_0000100" before "iter_10000000", "global_step9" before "global_step10".
bool is_before(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& name) {
    const std::size_t letters = name.find_last_not_of("0123456789") + 1;
    const std::string digits = name.substr(letters);
    return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
  };
  const std::string of_a = number(a), of_b = number(b);
  return of_a.size() != of_b.size() ? of_a.size() < of_b.size() : of_a < of_b;
}

constexpr std::size_t most_named = 6;

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  const std::size_t first = names.size() > most_named ? names.size() - most_named : 0;
  if (first > 0) text = fmt::format("{}, ", counted(first, "other"));
  for (std::size_t i = first; i < names.size(); ++i)
    text += (i == first ? "" : i + 1 < names.size() ? ", " : " and ") + names[i];
  return text;
}

}  // namespace

std::vector<std::string> whole_steps(const fs::path& run, bool (*is_whole)(const fs::path&)) {
  std::vector<std::string> steps;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(run, error))
    if (item.is_directory(error) && is_whole(item.path()))
      steps.push_back(item.path().filename().string());
  std::ranges::sort(steps, is_before);
  return steps;
}

std::string step_named_in(const fs::path& file) {
  if (!fs::is_regular_file(file)) return "";
  constexpr std::streamsize most_bytes = 4096;
  std::string text(most_bytes, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), most_bytes);
  text.resize(static_cast<std::size_t>(in.gcount()));
  constexpr const char* blanks = " \t\r\n";
  text.resize(text.find_last_not_of(blanks) + 1);
  return text.substr(std::min(text.find_first_not_of(blanks), text.size()));
}

std::string whole_steps_text(const fs::path& run, const std::vector<std::string>& steps) {
  if (steps.empty()) return "it contains no folder with a complete step";
  return fmt::format("whole {} {}: trireme convert {} RUN{}", steps.size() == 1 ? "is" : "are",
                     list_of(steps), (run / steps.back()).string(),
                     steps.size() == 1 ? "" : " takes the last of them");
}

}  // namespace trireme
