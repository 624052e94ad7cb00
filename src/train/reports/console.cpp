// Output to the user through stdio; one append per call to the log file.
#include "train/reports/console.h"

#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "comm/transport.h"
#include "config/config.h"
#include "train/reports/log_file.h"

namespace trireme {
namespace {

constexpr const char* dim = "\x1b[2m";
constexpr const char* yellow = "\x1b[33m";
constexpr const char* plain = "\x1b[0m";

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

bool is_started_by_launcher() {
  try {
    return discover_launch().size > 1;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool is_colored(std::FILE* out) {
  if (is_set("NO_COLOR")) return false;
  if (is_set("CLICOLOR_FORCE") && std::strcmp(std::getenv("CLICOLOR_FORCE"), "0") != 0) return true;
  // Open MPI gives ranks on other nodes a pseudo-terminal, wherever its own output goes.
  if (is_started_by_launcher()) return false;
  const char* terminal = std::getenv("TERM");
  return ::isatty(::fileno(out)) == 1 && !(terminal && std::strcmp(terminal, "dumb") == 0);
}

int terminal_columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

// The bar is drawn only if progress lines are shown.
Console::Console(std::FILE* out, bool live, LogLevel level, FileProgress* files)
    : out_(out),
      level_(level),
      live_(live && shows(LogLevel::info) && ::isatty(::fileno(out)) == 1),
      colored_(is_colored(out)),
      files_(files) {}

Console::~Console() {
  erase();
}

void Console::keep_in(const fs::path& path) {
  kept_ = true;
  try {
    file_ = std::make_unique<File>(path, File::Mode::append);
  } catch (const std::exception& error) {
    show(LogLevel::warning,
         fmt::format("warning: {}; training continues without a log file", error.what()));
  }
  write(std::exchange(before_, ""));
}

void Console::write(const std::string& text) {
  if (!kept_) before_ += text;
  if (!file_) return;
  const FileProgress::Phase phase(files_, "is writing the files of its log");
  try {
    append_record(*file_, text);
  } catch (const std::exception& error) {
    file_.reset();
    show(LogLevel::warning,
         fmt::format("warning: {}; training continues without the log file", error.what()));
  }
}

// The first `dimmed` characters are shown as less important.
void Console::show(LogLevel level, const std::string& lines, std::size_t dimmed) {
  if (!shows(level)) return;
  erase();
  std::string text = printable_message(lines);
  if (colored_) {
    if (level == LogLevel::warning) text = text + plain, text.insert(dimmed, yellow);
    if (dimmed > 0) text.insert(dimmed, plain), text.insert(0, dim);
  }
  std::fputs((text + "\n").c_str(), out_);
  std::fflush(out_);
}

void Console::put(LogLevel level, const std::string& lines) {
  show(level, lines);
  write(lines + "\n");
}

void Console::put_now(LogLevel level, const std::string& line) {
  const std::string now = time_of_day() + " ";
  show(level, now + line, now.size());
  write(now + line + "\n");
}

void Console::print(const std::string& lines) {
  put(LogLevel::info, lines);
}

void Console::print_now(const std::string& line) {
  put_now(LogLevel::info, line);
}

void Console::print_now(const std::string& shown, const std::string& kept) {
  const std::string now = time_of_day() + " ";
  show(LogLevel::info, now + shown, now.size());
  write(now + kept + "\n");
}

void Console::warn(const std::string& line) {
  put(LogLevel::warning, "warning: " + line);
}

void Console::warn_now(const std::string& line) {
  put_now(LogLevel::warning, "warning: " + line);
}

// A line per step would make the log of a long run too large, so it is written only on request.
void Console::debug(const std::string& line) {
  if (shows(LogLevel::debug)) put_now(LogLevel::debug, line);
}

void Console::record(const std::string& line) {
  write(line + "\n");
}

int Console::columns() const {
  const int columns = terminal_columns(out_);
  return columns > 0 ? columns : 80;
}

// A process started by a launcher may see a pseudo-terminal of the launcher: the environment
// variable is more reliable.
std::size_t Console::line_columns() const {
  const char* given = std::getenv(terminal_columns_variable);
  const int columns = given ? std::atoi(given) : terminal_columns(out_);
  return columns > 0 ? static_cast<std::size_t>(columns) : std::string::npos;
}

void Console::draw(const std::string& line) {
  if (!live_) return;
  std::fprintf(out_, "\r%s\x1b[K", line.c_str());
  std::fflush(out_);
  drawn_ = true;
}

void Console::erase() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", out_);  // to the start of the line, clear it
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace trireme
