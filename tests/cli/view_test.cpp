// Tests of `trireme view`: reports as files, the page itself, and errors.
#include <gmock/gmock.h>

#include "program.h"

namespace trireme::testing_cli {
namespace {

using testing::HasSubstr;

class View : public Workspace {};

TEST_F(View, WritesAReportOfRuns) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=8"}).code, 0);
  const Outcome written = run({"view", path("run"), "--export", path("report.html")});
  ASSERT_EQ(written.code, 0) << written.out;
  EXPECT_THAT(written.out, HasSubstr("1 run in "));
  const std::string report = contents(path("report.html"));
  EXPECT_THAT(report, HasSubstr("</html>"));
  EXPECT_THAT(report, HasSubstr("\"name\":\"run\""));
  EXPECT_THAT(report, HasSubstr("Memory per rank"));
  // Existing files are kept, unless the user says otherwise.
  const Outcome again = run({"view", path("run"), "--export", path("report.html")});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.out, HasSubstr("already exists: choose another file; --force replaces it"));
  EXPECT_EQ(run({"view", path("run"), "--export", path("report.html"), "--force"}).code, 0);
}

TEST_F(View, ExportsRunsToWeightsAndBiases) {
  prepare_data();
  ASSERT_EQ(train("run", {"train.iters=8"}).code, 0);
  std::ofstream(path("run/metrics.jsonl"), std::ios::app) << "torn";
  const std::vector<std::string> command = {"export-wandb", path("run"), "--out", path("out")};
  const Outcome written = run(command);
  ASSERT_EQ(written.code, 0) << written.out;
  EXPECT_THAT(written.out, HasSubstr("1 of its lines cannot be read and is skipped"));
  EXPECT_THAT(written.out,
              HasSubstr("8 steps; to upload: wandb sync " + path("out/wandb/offline-run-")));
  const Outcome again = run(command);
  EXPECT_EQ(again.code, 2) << again.out;
  EXPECT_THAT(again.out, HasSubstr("already exists"));
  EXPECT_EQ(run({"export-wandb", path("nowhere")}).code, 2);
}

TEST_F(View, RefusesWhatItCannotShow) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& why) {
    std::vector<std::string> command = {"view"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(why));
  };
  fs::create_directories(path("empty"));
  refused({path("nowhere")}, "does not exist");
  refused({path("empty"), "--export", path("report.txt")}, "the name must end in .html");
  refused({path("empty"), "--export", path("report.html")}, "contain no run");
  refused({path("empty"), "--machine", "mars"}, "neither a file nor a known machine");
  refused({path("empty"), "--port", "70000"}, "--port");
}

}  // namespace
}  // namespace trireme::testing_cli
