// `trireme view`: a web page of runs, served to this machine only, or as one file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/new_file.h"
#include "plan/machine.h"
#include "view/server.h"
#include "view/site.h"

namespace trireme::cli {
namespace {

struct ViewArguments {
  std::vector<std::string> runs = {"runs"};
  std::string machine, report;
  int port = 8642;
  bool force = false;
};

void write_report(WebSite& site, const std::string& path) {
  if (site.runs() == 0) fail_input("--export {}: the given folders contain no run", path);
  const std::string page = site.report();
  write_file_durably(path, page);
  fmt::print("{} in {} ({} KB)\n", counted(site.runs(), "run"), path, page.size() / 1000);
}

void serve(WebSite& site, int port) {
  const auto server = listen_on_loopback(
      port, [&site](const HttpRequest& request) { return site.answer(request); });
  fmt::print(
      "{} at http://127.0.0.1:{}/ until Ctrl-C\n"
      "from another machine: run ssh -L {}:127.0.0.1:{} USER@THIS-MACHINE there, then open the "
      "same address\n",
      counted(site.runs(), "run"), server->port(), server->port(), server->port());
  std::fflush(stdout);
  server->serve();
}

void run(const ViewArguments& arguments) {
  std::optional<Machine> machine;
  if (!arguments.machine.empty()) {
    machine = find_machine(arguments.machine);
    if (!machine->speed)
      fail_input("--machine {}: its file has no speed figures", arguments.machine);
  }
  const std::string& report = arguments.report;
  if (!report.empty() && !report.ends_with(".html"))
    fail_input("--export {}: the name must end in .html", report);
  if (!arguments.force) require_new_file(report, "--force replaces it");
  WebSite site({arguments.runs.begin(), arguments.runs.end()}, std::move(machine));
  if (!report.empty())
    write_report(site, report);
  else
    serve(site, arguments.port);
}

}  // namespace

void add_view(CLI::App& app) {
  auto* command = app.add_subcommand(
      "view", "Show runs on a local web page: losses, speed, memory, checkpoints, events");
  auto arguments = std::make_shared<ViewArguments>();
  command
      ->add_option("runs", arguments->runs,
                   "Folders of runs (run.dir), or folders with runs below them, at any depth")
      ->capture_default_str();
  auto* port = command
                   ->add_option("--port", arguments->port,
                                "Port of 127.0.0.1 to listen on; 0: any free port")
                   ->check(CLI::Range(0, 65535))
                   ->capture_default_str();
  auto* report =
      command
          ->add_option(
              "--export", arguments->report,
              "Write a self-contained page to this .html file, which must not exist, instead")
          ->excludes(port);
  command->add_flag("--force", arguments->force, "With --export: replace an existing file")
      ->needs(report);
  command->add_option(
      "--machine", arguments->machine,
      fmt::format(
          "Machine whose peak throughput is used for the MFU: {}, or a TOML file of the same "
          "form",
          fmt::join(machine_names(), ", ")));
  command->callback([arguments] { run(*arguments); });
}

}  // namespace trireme::cli
