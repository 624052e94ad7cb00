// Classifies lines of log.txt by prefix; those of plans, bars and steps are not events.
#include "view/run_events.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace trireme {
namespace {

constexpr std::size_t most_events = 200, longest_text = 400;

using Kind = RunEvent::Kind;

struct Beginning {
  const char* words;
  Kind kind;
};

// Line prefixes after the time of day. The first match counts.
constexpr std::array<Beginning, 13> beginnings = {{
    {"model: ", Kind::start},
    {"resumed from ", Kind::start},
    {"saved ", Kind::save},
    {"saving ", Kind::save},
    {"exported ", Kind::save},
    {"done at step ", Kind::stop},
    {"stopped at step ", Kind::stop},
    {"nothing to do", Kind::stop},
    {"warning: step ", Kind::skip},
    {"warning: ", Kind::warning},
    {"note: the start before this one", Kind::error},
    {"trireme: the run failed", Kind::restart},
    {"trireme: ", Kind::error},
}};

// "14:03:59 ": a digit for each 0.
bool begins_with_time(std::string_view line) {
  constexpr std::string_view shape = "00:00:00 ";
  if (line.size() < shape.size()) return false;
  return std::equal(shape.begin(), shape.end(), line.begin(), [](char expected, char found) {
    return expected == '0' ? std::isdigit(static_cast<unsigned char>(found)) != 0
                           : expected == found;
  });
}

// The number after the last occurrence of these words, or -1.
std::int64_t number_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.rfind(words);
  if (at == std::string_view::npos) return -1;
  const char* const begin = text.data() + at + words.size();
  std::int64_t number = -1;
  return std::from_chars(begin, text.data() + text.size(), number).ec == std::errc() ? number : -1;
}

std::int64_t step_in(std::string_view text) {
  const std::int64_t step = number_after(text, "step ");
  return step >= 0 ? step : number_after(text, "/step-");
}

}  // namespace

const char* RunEvent::name() const {
  constexpr std::array<const char*, 7> names = {"start", "restart", "save", "skip",
                                                "stop",  "warning", "error"};
  return names[static_cast<std::size_t>(kind)];
}

bool RunEvents::refresh(std::uint64_t version, std::size_t budget) {
  const bool restarted = file_.was_replaced();
  if (restarted) {
    events_.clear();
    starts_ = forgotten_ = 0;
  }
  file_.read(budget, [&](std::string_view line) { add_line(line, version); });
  return restarted;
}

void RunEvents::add_line(std::string_view line, std::uint64_t version) {
  RunEvent event;
  event.version = version;
  if (begins_with_time(line)) {
    event.time = line.substr(0, 8);
    line.remove_prefix(9);
  }
  const auto found = std::ranges::find_if(
      beginnings, [line](const Beginning& known) { return line.starts_with(known.words); });
  if (found == beginnings.end()) return;
  event.kind = found->kind;
  event.step = step_in(line);
  event.text = line.substr(0, longest_text);
  if (event.kind == Kind::start && line.starts_with("model: "))
    ++starts_;
  else if (event.kind == Kind::start && !events_.empty() &&
           events_.back().kind == Kind::start)  // the step that the start resumes from
    events_.pop_back();
  events_.push_back(std::move(event));
  if (events_.size() > most_events) {
    events_.pop_front();
    ++forgotten_;
  }
}

}  // namespace trireme
