// The order of the lines is all that changes.
#include "supervise/host_list.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t largest_file = 64 << 20;

std::string name_in(const std::string& line) {
  return line.substr(0, line.find_first_of(" \t:"));
}

}  // namespace

bool is_host_name(std::string_view text) {
  const auto may_occur = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  return !text.empty() && text.size() <= 255 && std::ranges::all_of(text, may_occur) &&
         text.front() != '-';
}

HostList::HostList(const fs::path& file, int used) : used_(used) {
  std::istringstream text(read_file(file, largest_file));
  std::set<std::string> names;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const std::string name = name_in(line);
    if (!is_host_name(name))
      fail_input("'{}', line {}: expected the name of a host, found '{}'", file.string(), number,
                 line.substr(0, 80));
    if (!names.insert(name).second)
      fail_input("'{}', line {}: the host {} occurs twice", file.string(), number, name);
    lines_.push_back(line);
  }
  if (lines_.empty()) fail_input("'{}' names no host", file.string());
  if (used_ == 0) used_ = static_cast<int>(lines_.size());
  if (spare() < 0)
    fail_input("'{}' names {}, and --nodes asks for {}", file.string(),
               counted(lines_.size(), "host"), used_);
}

bool HostList::uses(const std::string& host) const {
  return std::ranges::find(lines_, host, name_in) - lines_.begin() < used_;
}

std::vector<std::string> HostList::replace(const std::vector<std::string>& hosts) {
  std::vector<std::string> were_used;
  std::ranges::copy_if(hosts, std::back_inserter(were_used),
                       [this](const std::string& host) { return uses(host); });
  for (const std::string& host : were_used) {
    const auto at = std::ranges::find(lines_, host, name_in);
    std::rotate(at, at + 1, lines_.end());
  }
  return were_used;
}

std::string HostList::text() const {
  std::string text;
  for (int i = 0; i < used_; ++i) text += lines_[static_cast<std::size_t>(i)] + "\n";
  return text;
}

}  // namespace trireme
