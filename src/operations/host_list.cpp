// Reorders the lines of the file without other changes.
#include "operations/host_list.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
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

// Returns the addresses of a host, or an address itself.
std::set<std::string> addresses_of(const std::string& host) {
  addrinfo hints{}, *first = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  std::set<std::string> addresses;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return addresses;
  for (const addrinfo* one = first; one; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) == 0)
      addresses.insert(text);
  }
  ::freeaddrinfo(first);
  return addresses;
}

bool is_address(const std::string& host) {
  return host.find_first_not_of("0123456789.") == std::string::npos;
}

constexpr std::size_t most_named = 4096;  // maximum number of hosts in a line

// Expands "1-3,7" after "n" to n1 n2 n3 n7, keeping zeros ("001-003"). False for other texts.
bool add_numbered(std::string_view prefix, std::string_view ranges, std::string_view suffix,
                  std::vector<std::string>& hosts) {
  while (!ranges.empty()) {
    const std::string_view range = ranges.substr(0, ranges.find(','));
    ranges.remove_prefix(std::min(range.size() + 1, ranges.size()));
    const std::string_view first = range.substr(0, range.find('-'));
    const std::string_view last = range.substr(first.size() == range.size() ? 0 : first.size() + 1);
    int from = 0, to = -1;
    const auto read = [](std::string_view text, int& number) {
      return !text.empty() && std::from_chars(text.data(), text.data() + text.size(), number).ptr ==
                                  text.data() + text.size();
    };
    if (!read(first, from) || !read(last, to) || from < 0 || to < from) return false;
    for (int i = from; i <= to; ++i) {
      if (hosts.size() >= most_named) return false;
      hosts.push_back(fmt::format("{}{:0{}}{}", prefix, i, first.size(), suffix));
    }
  }
  return true;
}

}  // namespace

std::vector<std::string> hosts_in(std::string_view text) {
  std::vector<std::string> hosts;
  while (!text.empty()) {
    std::size_t end = text.find(',');
    const std::size_t open = text.find('['), close = text.find(']');
    const bool numbered = open < end && close != std::string_view::npos && open < close;
    if (numbered) end = text.find(',', close);
    const std::string_view one = text.substr(0, end);
    if (numbered) {
      if (!add_numbered(one.substr(0, open), one.substr(open + 1, close - open - 1),
                        one.substr(close + 1), hosts))
        return {};
    } else {
      hosts.emplace_back(one);
    }
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  if (!std::ranges::all_of(hosts, [](const std::string& host) { return is_host_name(host); }))
    return {};
  return hosts;
}

bool is_same_host(const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (is_address(a) != is_address(b)) {
    const std::set<std::string> of_a = addresses_of(a), of_b = addresses_of(b);
    return std::ranges::any_of(of_a, [&](const std::string& one) { return of_b.contains(one); });
  }
  // One with and one without a domain.
  return !is_address(a) && (a.starts_with(b + ".") || b.starts_with(a + "."));
}

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
      fail_input("'{}', line {}: duplicate host {}", file.string(), number, name);
    lines_.push_back(line);
  }
  if (lines_.empty()) fail_input("'{}' contains no host", file.string());
  if (used_ == 0) used_ = static_cast<int>(lines_.size());
  if (spare() < 0)
    fail_input("'{}' contains {}, but --nodes requires {}", file.string(),
               counted(lines_.size(), "host"), used_);
}

bool HostList::uses(const std::string& host) const {
  return find(host) - lines_.begin() < used_;
}

std::vector<std::string>::const_iterator HostList::find(const std::string& host) const {
  const auto exact = std::ranges::find(lines_, host, name_in);
  if (exact != lines_.end()) return exact;
  return std::ranges::find_if(
      lines_, [&](const std::string& line) { return is_same_host(name_in(line), host); });
}

std::vector<std::string> HostList::used_but_not(const std::vector<std::string>& hosts) const {
  std::vector<std::string> others;
  for (int i = 0; i < used_; ++i) {
    const std::string name = name_in(lines_[static_cast<std::size_t>(i)]);
    if (std::ranges::none_of(hosts, [&](const auto& host) { return is_same_host(name, host); }))
      others.push_back(name);
  }
  return others;
}

std::vector<std::string> HostList::replace(const std::vector<std::string>& hosts) {
  std::vector<std::string> were_used;
  std::ranges::copy_if(hosts, std::back_inserter(were_used),
                       [this](const std::string& host) { return uses(host); });
  for (const std::string& host : were_used) {
    const auto at = lines_.begin() + (find(host) - lines_.begin());
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
