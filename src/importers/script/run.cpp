// Sets up scratch folder and environment, runs the script, and reads the shims' records.
#include "importers/script/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "importers/script/shims.h"

namespace trireme::script {
namespace {

// A temporary folder, deleted with the object.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "trireme-import-XXXXXX").string();
    if (!mkdtemp(name.data())) fail("cannot make a scratch folder '{}'", name);
    path_ = fs::canonical(name);
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Variables of the current job or shell that must not leak into the script.
bool belongs_to_session(const std::string& name) {
  for (const char* prefix : {"SLURM", "PMI", "OMPI_", "PBS_", "TRIREME_", "BASH_FUNC_"}) {
    if (name.starts_with(prefix)) return true;
  }
  for (const char* other : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "BASH_ENV", "ENV",
                            "PATH", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS", "LD_PRELOAD"}) {
    if (name == other) return true;
  }
  return false;
}

std::vector<std::string> environment(const ScriptOptions& options, const fs::path& scratch) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (name.size() < text.size() && !belongs_to_session(name))
      variables[name] = text.substr(name.size() + 1);
  }
  std::string names;
  for (const auto& [name, value] : options.variables) {
    variables[name] = value;
    names += (names.empty() ? "" : " ") + name;
  }
  const char* path = std::getenv("PATH");
  const std::string bin = (scratch / "bin").string();
  variables["PATH"] = bin + ":" + (path ? path : "/usr/local/bin:/usr/bin:/bin");
  variables["TRIREME_BIN"] = bin;
  variables["TRIREME_CALLS"] = (scratch / "run" / "calls").string();
  variables["TRIREME_BASH"] = bash_path();
  variables["TRIREME_SET"] = names;
  variables["TRIREME_GPUS"] = options.devices > 0 ? fmt::format("{}", options.devices) : "";
  variables["BASH_ENV"] = (scratch / "startup").string();
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

// If the current folder cannot be overlaid, the script starts in a folder of links to its entries,
// so that it can at least create new files.
fs::path linked_folder(const fs::path& scratch) {
  const fs::path folder = scratch / "run" / "work";
  make_folders(folder);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::current_path(), error))
    fs::create_symlink(entry.path(), folder / entry.path().filename(), error);
  return folder;
}

// Fields of a record, each terminated by NUL.
class Fields {
 public:
  explicit Fields(const std::string& text) : text_(text) {}
  bool more() const { return at_ < text_.size(); }
  std::string next() {
    const std::size_t end = std::min(text_.find('\0', at_), text_.size());
    const std::size_t begin = std::min(at_, end);
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }
  int number(int otherwise) {
    const std::string text = next();
    int value = otherwise;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
};

Call::Kind kind_of(const std::string& word) {
  static const std::map<std::string, Call::Kind> kinds = {{"asked", Call::Kind::asked},
                                                          {"devices", Call::Kind::devices},
                                                          {"wrapper", Call::Kind::wrapper},
                                                          {"absent", Call::Kind::absent},
                                                          {"failed", Call::Kind::failed}};
  const auto found = kinds.find(word);
  return found == kinds.end() ? Call::Kind::call : found->second;
}

Call parse_call(const std::string& record) {
  Fields fields(record);
  Call call;
  call.folder = fields.next();
  call.parent = fields.number(-1);
  call.line = fields.number(0);
  const std::string kind = fields.next();
  call.kind = kind_of(kind);
  for (int count = fields.number(0); count > 0 && fields.more(); --count)
    call.arguments.push_back(fields.next());
  for (int count = fields.number(0); count > 1 && fields.more(); count -= 2) {
    const std::string path = fields.next();
    call.files[path] = fields.next();
  }
  while (fields.more()) {
    const std::string text = fields.next();
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos)
      call.variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return call;
}

// Replaces paths of the linked folder by those the user knows.
void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Runs with the user's own identity; `isolation` determines what the script can access.
SandboxRequest request_for(const Scratch& scratch, Isolation isolation, std::uint64_t memory) {
  SandboxRequest request;
  request.scratch = scratch.path();
  request.isolation = isolation;
  request.folder = fs::current_path();
  request.memory = memory;
  request.shown = {fs::current_path(), scratch.path()};
  return request;
}

[[noreturn]] void fail_no_isolation(const std::string& problems) {
  fail_input(
      "the script was not run: this machine cannot prevent it from changing files or reaching the "
      "network and other processes ({}); --isolation none runs it anyway",
      problems);
}

void add_problem(std::string& problems, const std::string& problem) {
  problems += (problems.empty() ? "" : "; ") + problem;
}

}  // namespace

Reached reach_isolation(const ScriptOptions& options) {
  const Scratch scratch;
  std::string weaker;
  for (const Isolation isolation : options.isolations) {
    if (isolation == Isolation::none) return {isolation, weaker};
    SandboxRequest request = request_for(scratch, isolation, options.memory);
    request.command = {bash_path(), "-c", ":"};
    request.folder = "/";
    request.limit = std::chrono::seconds(20);
    const SandboxResult result = run_in_sandbox(request);
    if (result.started && result.status == 0) return {isolation, weaker};
    add_problem(weaker, result.started ? "bash does not start in it" : result.problem);
  }
  fail_no_isolation(weaker);
}

ScriptRun run_script(const fs::path& script, const ScriptOptions& options) {
  const Scratch scratch;
  write_shims(scratch.path());
  std::string weaker;
  for (const Isolation isolation : options.isolations) {
    SandboxRequest request = request_for(scratch, isolation, options.memory);
    request.command = {(scratch.path() / "bin" / "trireme-script").string(), script.string()};
    request.command.insert(request.command.end(), options.arguments.begin(),
                           options.arguments.end());
    request.environment = environment(options, scratch.path());
    request.limit = options.limit;
    request.shown.push_back(script.parent_path());
    if (isolation == Isolation::landlock) {
      request.folder = linked_folder(scratch.path());
      make_folders(scratch.path() / "run" / "tmp");
      std::erase_if(request.environment,
                    [](const std::string& text) { return text.starts_with("TMPDIR="); });
      request.environment.push_back("TMPDIR=" + (scratch.path() / "run" / "tmp").string());
    }
    SandboxResult result = run_in_sandbox(request);
    if (!result.started) {
      add_problem(weaker, result.problem);
      continue;
    }
    ScriptRun run;
    run.status = result.status;
    run.problem = std::move(result.problem);
    run.output = std::move(result.output);
    run.isolation = isolation;
    run.weaker = weaker;
    for (std::string& call : result.calls) {
      replace_all(call, (scratch.path() / "run" / "work").string(), fs::current_path().string());
      run.calls.push_back(parse_call(call));
    }
    return run;
  }
  fail_no_isolation(weaker);
}

}  // namespace trireme::script
