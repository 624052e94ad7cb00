// Tests of the web page of runs: rendering of their files, access control, and the report.
#include "view/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class ViewSite : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "run"); }
  void TearDown() override { fs::remove_all(folder_); }

  void append(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / "run" / name, std::ios::app) << text;
  }
  // Appends lines of losses; a run of `last` steps has all of them.
  void append_losses(int first, int last) const {
    std::string lines;
    for (int step = first; step <= last; ++step)
      lines += "{\"step\": " + std::to_string(step) + ", \"loss\": " + std::to_string(10.0 / step) +
               ", \"lr\": 0.001}\n";
    append("metrics.jsonl", lines);
  }
  static HttpRequest get(const std::string& path, const std::string& have = "") {
    return {"GET", path, "127.0.0.1:8642", have};
  }
  Json first_run(const std::string& have = "") const {
    WebSite site({folder_ / "run"}, std::nullopt);
    return Json::parse(site.answer(get("/update", have)).body)["runs"][0];
  }

  fs::path folder_ = fs::temp_directory_path() / ("trireme-view-" + std::to_string(::getpid()));
};

TEST_F(ViewSite, SendsLossesAndThenOnlyWhatIsNew) {
  append_losses(1, 50);
  WebSite site({folder_ / "run"}, std::nullopt);
  const Json run = Json::parse(site.answer(get("/update")).body)["runs"][0];
  EXPECT_EQ(run["name"], "run");
  EXPECT_EQ(run["series"]["loss"]["mean"].size(), 50u);
  EXPECT_DOUBLE_EQ(run["series"]["loss"]["mean"][1], 5);
  const std::string have = "0:" + run["generation"].dump() + ":" + run["version"].dump();
  const Json again = Json::parse(site.answer(get("/update", have)).body)["runs"][0];
  EXPECT_FALSE(again["series"].contains("loss"));
}

TEST_F(ViewSite, LongRunsKeepTheirSpikesInFewPoints) {
  append_losses(1, 20'000);
  append("metrics.jsonl", "{\"step\": 20001, \"loss\": 77.0}\n");
  append_losses(20'002, 30'000);
  const Json loss = first_run()["series"]["loss"];
  EXPECT_LE(loss["mean"].size(), 1024u);
  double highest = 0;
  for (const Json& value : loss["high"]) highest = std::max(highest, value.get<double>());
  EXPECT_DOUBLE_EQ(highest, 77);
}

// Each damaged file gives a note on the page, and intact data is shown.
TEST_F(ViewSite, DamagedFilesAreNotes) {
  append_losses(1, 3);
  append("metrics.jsonl", "{\"step\": 4, \"loss\": \n{\"step\": 5, \"loss\": 2.0}\n{\"step\": 6");
  append("status.json", "[1, 2");
  append("config.toml", "[model]\nfamly = \"gpt\"\n");
  const Json run = first_run();
  EXPECT_EQ(run["series"]["loss"]["mean"].size(), 4u);
  const std::string notes = run["notes"].dump();
  EXPECT_THAT(notes, HasSubstr("metrics.jsonl"));
  EXPECT_THAT(notes, HasSubstr("status.json is not a JSON object"));
  EXPECT_THAT(notes, HasSubstr("config.toml cannot be used"));
  EXPECT_THAT(notes, HasSubstr("model.famly"));
}

TEST_F(ViewSite, AnswersThisMachineAndGetsAlone) {
  append_losses(1, 1);
  WebSite site({folder_ / "run"}, std::nullopt);
  EXPECT_EQ(site.answer(get("/")).status, 200);
  EXPECT_EQ(site.answer(get("/view.css")).status, 200);
  EXPECT_EQ(site.answer(get("/view.js")).status, 200);
  EXPECT_EQ(site.answer(get("/layout/0")).status, 200);
  for (const char* path : {"/layout/1", "/layout/", "/layout/-1", "/../etc/passwd", "//", ""})
    EXPECT_EQ(site.answer(get(path)).status, 404) << path;
  EXPECT_EQ(site.answer({"POST", "/update", "localhost", ""}).status, 405);
  for (const char* host :
       {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil:8642", ":"})
    EXPECT_EQ(site.answer({"GET", "/update", host, ""}).status, 403) << host;
  for (const char* host : {"localhost", "localhost:1", "[::1]:8642", "127.0.0.1"})
    EXPECT_EQ(site.answer({"GET", "/update", host, ""}).status, 200) << host;
  for (const char* have : {"0:1", "x", "0:1:2,", "99999999999999999999999:1:1", ":::"})
    EXPECT_EQ(site.answer(get("/update", have)).status, 200) << have;
}

// Text from a run's files is escaped.
TEST_F(ViewSite, ReportsStandAloneAndHoldNoMarkupOfRuns) {
  append_losses(1, 5);
  append("log.txt", "14:00:01 warning: </script><script>alert(1)</script>\n");
  WebSite site({folder_ / "run"}, std::nullopt);
  const std::string report = site.report();
  EXPECT_THAT(report, HasSubstr("</html>"));
  EXPECT_EQ(report.find("<script>alert"), std::string::npos);
  EXPECT_EQ(report.find("src=\"http"), std::string::npos);
  EXPECT_EQ(report.find("href=\"http"), std::string::npos);
  EXPECT_LT(report.size(), 300'000u);
}

TEST_F(ViewSite, FilesThatBeginAnewAreReadAnew) {
  append_losses(1, 9);
  WebSite site({folder_ / "run"}, std::nullopt);
  const Json before = Json::parse(site.answer(get("/update")).body)["runs"][0];
  fs::remove(folder_ / "run" / "metrics.jsonl");
  append_losses(1, 4);
  WebSite later({folder_ / "run"}, std::nullopt);
  const Json after = Json::parse(later.answer(get("/update")).body)["runs"][0];
  EXPECT_EQ(after["series"]["loss"]["mean"].size(), 4u);
}

// The folder may belong to another user, who must not gain access to the reader's files.
TEST_F(ViewSite, FollowsNoLinkOutOfARun) {
  append_losses(1, 3);
  std::ofstream(folder_ / "secret.txt") << "a secret";
  fs::create_directories(folder_ / "elsewhere");
  std::ofstream(folder_ / "elsewhere" / "b.txt") << "a secret";
  fs::create_directories(folder_ / "run" / "samples");
  append("samples/a.txt", "written by the model");
  fs::create_symlink(folder_ / "secret.txt", folder_ / "run" / "samples" / "link.txt");
  fs::create_symlink(folder_ / "secret.txt", folder_ / "run" / "log.txt");
  fs::create_symlink(folder_ / "secret.txt", folder_ / "run" / "status.json");
  fs::create_symlink(folder_ / "secret.txt", folder_ / "run" / "config.toml");
  const Json run = first_run();
  EXPECT_EQ(run["samples"].size(), 1u);
  EXPECT_THAT(run.dump(), testing::Not(HasSubstr("a secret")));
  EXPECT_THAT(run["notes"].dump(), HasSubstr("config.toml is a symbolic link"));
  fs::remove_all(folder_ / "run" / "samples");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "run" / "samples");
  EXPECT_THAT(first_run().dump(), testing::Not(HasSubstr("a secret")));
}

TEST_F(ViewSite, FindsRunsAtAnyDepthAndEachOnce) {
  const auto run_at = [&](const fs::path& place) {
    fs::create_directories(folder_ / place);
    std::ofstream(folder_ / place / "status.json") << "{}";
  };
  append_losses(1, 1);
  run_at("tutorial/one");
  run_at("tutorial/deep/er/two");
  run_at("run/below");               // inside a run
  run_at("run/checkpoints/step-1");  // contents of a checkpoint are not a run
  fs::create_directory_symlink(folder_, folder_ / "tutorial" / "circle");
  WebSite site({folder_, folder_ / "tutorial"}, std::nullopt);
  std::set<std::string> names;
  const Json update = Json::parse(site.answer(get("/update")).body);
  for (const Json& run : update["runs"])
    names.insert(fs::relative(run["folder"].get<std::string>(), fs::canonical(folder_)));
  EXPECT_EQ(names,
            (std::set<std::string>{"run", "run/below", "tutorial/one", "tutorial/deep/er/two"}));
  EXPECT_EQ(site.runs(), 4u);
}

TEST(ViewRuns, WhatIsNoFolderIsRefused) {
  try {
    WebSite site({"/nowhere/at/all"}, std::nullopt);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/at/all"));
  }
}

}  // namespace
}  // namespace trireme
