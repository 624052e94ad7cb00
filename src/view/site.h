// Pages and data of some runs: answers to requests, and the report, which needs no server.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plan/machine.h"
#include "view/http/plugin.h"
#include "view/layout_pictures.h"
#include "view/run_view.h"

namespace trireme {

class WebSite {
 public:
  // Runs below `named` (run_folders.h), which are looked for again from time to time. `machine`:
  // whose peak utilization is counted with.
  WebSite(std::vector<fs::path> named, std::optional<Machine> machine);

  // GET of the known paths, by the names of this machine: otherwise a web site could make a browser
  // read them. Everything else is rejected with a line that says why. Never throws; thread-safe.
  HttpReply answer(const HttpRequest& request);

  // A self-contained page with everything that is known now.
  std::string report();

  std::size_t runs() const { return runs_.size(); }

 private:
  struct Run {
    std::size_t id;
    RunView view;
    std::uint64_t drawn_version = ~std::uint64_t{0};
    std::string drawn;  // its layout as JSON
  };

  void look_for_runs();
  void refresh();
  std::string update(const std::string& have);
  std::string layout(Run& run);
  Run* find_run(const std::string& id);
  HttpReply find(const HttpRequest& request);

  const std::vector<fs::path> named_;
  const std::optional<Machine> machine_;
  std::mutex mutex_;
  std::deque<Run> runs_;
  std::vector<std::string> names_;
  std::size_t left_out_ = 0;
  bool gave_up_ = false;
  std::chrono::steady_clock::time_point looked_{}, refreshed_{};
};

}  // namespace trireme
