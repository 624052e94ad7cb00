// Web pages and data of runs: request handling, and the static report, which needs no server.
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
  // Shows the runs below `named` (run_folders.h), rescanned periodically. `machine`: its peak
  // defines utilization.
  WebSite(std::vector<fs::path> named, std::optional<Machine> machine);

  // Answers GET of known paths under host names of this machine only, so that web sites cannot read
  // them through a browser. All else is rejected with an explanation. Never throws; thread-safe.
  HttpReply answer(const HttpRequest& request);

  // Returns a self-contained page with all current data.
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
