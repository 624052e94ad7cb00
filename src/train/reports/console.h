// User-facing output of a run to a terminal or a pipe, with a plain copy in a log file.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "checkpoint/progress.h"
#include "config/choices.h"

namespace trireme {

// Output errors never end a run: output to a closed pipe or a full disk is dropped, and a log file
// that cannot be written is abandoned with one warning.
class Console {
 public:
  // `out` is not owned. `live`: a bar may be drawn if `out` is a terminal. Lines beyond `level` are
  // not shown; the file still gets them, except for those of LogLevel::debug. `files`, which
  // outlives it, is notified when this process waits for the storage of the file.
  explicit Console(std::FILE* out, bool live = true, LogLevel level = LogLevel::info,
                   FileProgress* files = nullptr);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Copies all output so far and all later output to this file, which is appended to if it
  // exists.
  void keep_in(const fs::path& path);

  // Prints one or several lines, without the final newline.
  void print(const std::string& lines);
  // A line with the time of day in front.
  void print_now(const std::string& line);
  // The same, with a longer line in the file.
  void print_now(const std::string& shown, const std::string& kept);
  // The same for a warning, which is colored on a terminal: "warning: " is put in front of it.
  void warn(const std::string& line);
  void warn_now(const std::string& line);
  // A line with the time of day in front, where LogLevel::debug is shown.
  void debug(const std::string& line);
  bool shows(LogLevel level) const { return level <= level_; }
  // Writes a line to the file only.
  void record(const std::string& line);

  // A line that the next one replaces; only on a terminal.
  void draw(const std::string& line);
  void erase();
  bool is_live() const { return live_; }
  int columns() const;
  // Columns that a line may have: those of the terminal, also where a launcher stands between it
  // and this process (terminal_columns_variable); elsewhere there is no limit.
  std::size_t line_columns() const;

 private:
  void show(LogLevel level, const std::string& lines, std::size_t dimmed = 0);
  void put(LogLevel level, const std::string& lines);
  void put_now(LogLevel level, const std::string& line);
  void write(const std::string& text);

  std::FILE* out_;
  LogLevel level_;
  bool live_, colored_, drawn_ = false;
  FileProgress* files_;
  std::unique_ptr<File> file_;
  bool kept_ = false;
  std::string before_;  // what was printed before there was a file
};

// The environment variable with the columns of the terminal to which output is passed on.
inline constexpr const char* terminal_columns_variable = "TRIREME_COLUMNS";

// Columns of the terminal `out`; 0 if it is no terminal or the number is unknown.
int terminal_columns(std::FILE* out);

// Whether text to `out` is colored: on a terminal, unless NO_COLOR is set; CLICOLOR_FORCE=1
// colors pipes too.
bool is_colored(std::FILE* out);

// "14:03:59", local time.
std::string time_of_day();

}  // namespace trireme
