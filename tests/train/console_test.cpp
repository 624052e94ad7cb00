// Tests of the console: what each level shows, and what the log file keeps.
#include "train/reports/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "named.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

struct Written {
  std::string shown, kept;
};

// Writes one line of each kind at `level`.
Written write_at(const std::string& level) {
  const ScratchFolder dir;
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  {
    Console console(out, true, named(level));
    console.warn("before the file");
    console.keep_in(dir / "log.txt");
    console.print("plan");
    console.print_now("progress");
    console.warn_now("slow");
    console.debug("start-up");
  }
  std::fclose(out);
  Written written{text, read_file(dir / "log.txt")};
  std::free(text);
  return written;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Console, ShowsLinesUpToItsLevel) {
  EXPECT_EQ(write_at("error").shown, "");
  const std::string warning = write_at("warning").shown;
  EXPECT_TRUE(has(warning, "warning: before the file\n"));
  EXPECT_TRUE(has(warning, " warning: slow\n"));
  EXPECT_FALSE(has(warning, "plan") || has(warning, "progress"));
  const std::string info = write_at("info").shown;
  EXPECT_TRUE(has(info, "warning: slow\n") && has(info, "plan\n") && has(info, " progress\n"));
  EXPECT_FALSE(has(info, "start-up"));
  EXPECT_TRUE(has(write_at("debug").shown, " start-up\n"));
}

TEST(Console, KeepsAllLinesWhateverItShows) {
  for (const char* level : {"error", "warning", "info", "debug"}) {
    const std::string kept = write_at(level).kept;
    EXPECT_TRUE(kept.starts_with("warning: before the file\nplan\n")) << level;
    EXPECT_TRUE(has(kept, " progress\n") && has(kept, " warning: slow\n")) << level;
    EXPECT_EQ(has(kept, "start-up"), level == std::string("debug")) << level;
  }
}

// Open MPI gives ranks on other nodes a terminal, but their output may end up in a file.
TEST(Console, HasNoColorsOnATerminalThatALauncherMade) {
  const int control = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_TRUE(control >= 0 && ::grantpt(control) == 0 && ::unlockpt(control) == 0);
  std::FILE* const terminal = std::fopen(::ptsname(control), "w");
  ASSERT_NE(terminal, nullptr);
  for (const char* name : {"NO_COLOR", "CLICOLOR_FORCE", "TERM"}) ::unsetenv(name);
  EXPECT_TRUE(is_colored(terminal));
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_FALSE(is_colored(terminal));
  ::setenv("CLICOLOR_FORCE", "1", 1);  // as --nproc sets for its own terminal
  EXPECT_TRUE(is_colored(terminal));
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "CLICOLOR_FORCE"})
    ::unsetenv(name);
  std::fclose(terminal);
  ::close(control);
}

}  // namespace
}  // namespace trireme
