// Finds the word that the parser does not know, and rewords the parser's messages.
#include "cli/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "config/nearest.h"

namespace trireme::cli {
namespace {

// Groups of options are subcommands without a name.
std::vector<const CLI::App*> subcommands(const CLI::App& app, bool groups) {
  return app.get_subcommands(
      [=](const CLI::App* sub) { return sub->get_name().empty() == groups; });
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : subcommands(app, false)) names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* group : subcommands(app, true)) {
    for (std::string& name : flag_names(*group)) names.push_back(std::move(name));
  }
  return names;
}

std::string hint(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(word, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

// The kind of value that an option takes, for options that the parser converts.
std::string wanted(const CLI::App& at, const std::string& flag) {
  const CLI::Option* option = at.get_option_no_throw(flag);
  const std::string type = option ? option->get_type_name() : "";
  if (type.starts_with("INT")) return "a whole number";
  if (type.starts_with("UINT")) return "a nonnegative integer";
  if (type.starts_with("FLOAT")) return "a number";
  return "a value of the expected type";
}

// "1.000000" as "1"; a bound that is too large to be of interest as "".
std::string bound(std::string text) {
  if (text.find('.') != text.npos) text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text.size() > 20 ? "" : text;
}

std::string range(const std::string& low, const std::string& high) {
  if (bound(high).empty()) return fmt::format("a number of at least {}", bound(low));
  return fmt::format("a number from {} to {}", bound(low), bound(high));
}

// "file->3,line->1" as "file, line".
std::string list(std::string_view names) {
  std::string text;
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find(','));
    text += fmt::format("{}{}", text.empty() ? "" : ", ", one.substr(0, one.find("->")));
    names.remove_prefix(std::min(names.size(), one.size() + 1));
  }
  return text;
}

// The user's words, in a message of a few lines at most.
std::string shown(std::string_view value) {
  constexpr std::size_t most = 80;
  if (value.size() <= most) return std::string(value);
  return fmt::format("{}... ({} characters)", value.substr(0, most), value.size());
}

// The pieces of `text` before, between and after the marks, which come in this order; the first
// place of the first mark counts, and the last of the others, since the user's words are between
// them.
std::optional<std::vector<std::string_view>> parts(std::string_view text,
                                                   std::initializer_list<std::string_view> marks) {
  std::vector<std::string_view> found;
  bool first = true;
  for (const std::string_view mark : marks) {
    const std::size_t at = first ? text.find(mark) : text.rfind(mark);
    if (at == text.npos) return std::nullopt;
    found.push_back(text.substr(0, at));
    text.remove_prefix(at + mark.size());
    first = false;
  }
  found.push_back(text);
  return found;
}

// Replaces the texts of CLI11 2.1 that name neither the flag nor its valid values.
std::string reworded(const std::string& text, const CLI::App& at) {
  constexpr std::string_view choice = "Exactly 1 option from [", conversion = "Could not convert: ";
  if (text == "A subcommand is required")
    return fmt::format("give a command: {}", fmt::join(command_names(at), ", "));
  if (text.starts_with(choice)) {
    const std::string_view names = std::string_view(text).substr(choice.size());
    return "give one of " + list(names.substr(0, names.find(']')));
  }
  if (text.starts_with(conversion)) {
    if (const auto p = parts(std::string_view(text).substr(conversion.size()), {" = "})) {
      const std::string flag((*p)[0]);
      return fmt::format("{} must be {}, not '{}'", flag, wanted(at, flag), shown((*p)[1]));
    }
  }
  if (const auto p = parts(text, {": Value ", " not in range ", " to "})) {
    const std::string low((*p)[2]), high((*p)[3]);
    return fmt::format("{} must be {}, not '{}'", (*p)[0], range(low, high), shown((*p)[1]));
  }
  if (const auto p = parts(text, {": ", " is not finite"}); p && (*p)[2].empty())
    return fmt::format("{} must be a finite number, not '{}'", (*p)[0], shown((*p)[1]));
  if (const auto p = parts(text, {": Check ", " value in {", "} OR "}))
    return fmt::format("{} must be one of {}, not '{}'", (*p)[0], list((*p)[2]), shown((*p)[1]));
  if (const auto p = parts(text, {": ", " not in {", "}"}))
    return fmt::format("{} must be one of {}, not '{}'", (*p)[0], list((*p)[2]), shown((*p)[1]));
  if (const auto p = parts(text, {": 1 required "}); p && (*p)[1].ends_with("missing"))
    return fmt::format("{} requires a value", (*p)[0]);
  return text;
}

}  // namespace

namespace {

// The subcommand that the words so far name, and the first word that it does not know.
struct Reading {
  const CLI::App* at;
  std::string path = "trireme";
  std::string unknown;  // "command 'x' ..." or "flag '--x' ..."; "" if all is known
};

Reading read_words(const CLI::App& app, int argc, char** argv) {
  Reading reading{&app};
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const std::vector<std::string> commands = command_names(*reading.at);
    if (!word.starts_with("-") && !commands.empty()) {
      if (std::find(commands.begin(), commands.end(), word) == commands.end()) {
        reading.unknown = fmt::format("command '{}'{}", shown(word), hint(word, commands));
        return reading;
      }
      reading.at = reading.at->get_subcommand(word);
      reading.path += " " + word;
      continue;
    }
    if (!word.starts_with("--")) continue;
    word = word.substr(0, word.find('='));
    const std::vector<std::string> flags = flag_names(*reading.at);
    if (std::find(flags.begin(), flags.end(), word) == flags.end()) {
      reading.unknown = fmt::format("flag '{}'{}", shown(word), hint(word, flags));
      return reading;
    }
  }
  return reading;
}

std::string unknown_word(const Reading& reading) {
  return fmt::format("{}: unknown {}; see {} --help", reading.path, reading.unknown, reading.path);
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const Reading reading = read_words(app, argc, argv);
  const bool unexpected = !reading.unknown.empty() ||
                          error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const char* more = unexpected && reading.path == "trireme import-args"
                         ? ". Pass arguments of the script that begin with '-' after --"
                         : "";
  if (!reading.unknown.empty()) return unknown_word(reading) + more;
  return fmt::format("{}: {}; see {} --help{}", reading.path, reworded(error.what(), *reading.at),
                     reading.path, more);
}

std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const Reading reading = read_words(app, argc, argv);
  return reading.unknown.starts_with("command") ? unknown_word(reading) : "";
}

}  // namespace trireme::cli
