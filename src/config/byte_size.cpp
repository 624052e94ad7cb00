// Parses memory sizes such as "64GiB".
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "config/config.h"

namespace trireme {
namespace {

// Bytes per unit; 0 if unknown. GB is 10^9; G and GiB are 2^30, as cluster documents use them.
double unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  const std::size_t power = std::string_view("KMGT").find(unit[0]);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = unit.substr(1);
  const double base = rest == "B" ? 1000 : rest.empty() || rest == "iB" ? 1024 : 0;
  return base == 0 ? 0 : std::pow(base, static_cast<double>(power) + 1);
}

}  // namespace

std::int64_t parse_byte_size(const std::string& text, const std::string& name) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  std::string unit;
  for (const char* at = after; at != end; ++at) {
    if (*at == ' ') continue;
    const char c = *at;
    unit +=
        c == 'i' || c == 'I' ? 'i' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  const double bytes = error == std::errc() ? number * unit_bytes(unit) : 0;
  if (!(bytes >= 1) || bytes > 1e18) {
    fail_input("{}: expected a size of memory such as 64GiB, 80GB or 512MiB, found '{}'", name,
               text);
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace trireme
