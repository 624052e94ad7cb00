// Tests of complete messages for wrong input, as in tests/cli/data/messages.txt: one place shows
// the effect of a change of wording. TRIREME_UPDATE_MESSAGES=1 rewrites the file.
#include <gmock/gmock.h>

#include <cstdlib>
#include <sstream>

#include "program.h"

namespace trireme::testing_cli {
namespace {

const char* const kMessages = TRIREME_TEST_DATA "/messages.txt";

class Messages : public Workspace {
 protected:
  // Returns what a shell prints for a command in the workspace's folder, and its exit code if that
  // is not 2.
  std::string said(const std::string& command) const {
    const std::string line = "cd '" + folder_.string() + "' && PATH='" +
                             fs::path(TRIREME_BINARY).parent_path().string() + "':$PATH; { " +
                             command + "; } > said.txt 2>&1 < /dev/null";
    const int status = std::system(line.c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return contents(folder_ / "said.txt") +
           (code == 2 ? "" : "exit " + std::to_string(code) + "\n");
  }

  void prepare_files() const {
    prepare_data();
    std::string text = contents(folder_ / "run.toml");
    const std::string here = folder_.string() + "/";
    for (std::size_t at; (at = text.find(here)) != std::string::npos;) text.erase(at, here.size());
    write("run.toml", text);
    write("broken.toml", "[model\nnum_layers = 2\n");
    write("foreign.toml", "[training]\nsteps = 10\n");
    write("empty", "");
    write("sentence.txt", "the ship turns.\n");
    write("numbers.jsonl", "{\"text\": \"a\"}\n{\"text\": 3}\n");
    write("unknown.json", "{\"train_batch_size\": 8, \"zero_optimisation\": {\"stage\": 1}}");
    write("broken.json", "{\"train_batch_size\": 8,, }");
    fs::create_directory(folder_ / "folder");
  }
};

// Returns the commands of the file, in order: lines that begin with "$ ".
std::vector<std::string> commands_of(const std::string& text) {
  std::vector<std::string> commands;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("$ ")) commands.push_back(line.substr(2));
  return commands;
}

TEST_F(Messages, AreThoseOfTheFile) {
  prepare_files();
  const std::string expected = contents(kMessages);
  std::string found;
  for (const std::string& command : commands_of(expected))
    found += "$ " + command + "\n" + said(command) + "\n";
  if (std::getenv("TRIREME_UPDATE_MESSAGES")) std::ofstream(kMessages) << found;
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace trireme::testing_cli
