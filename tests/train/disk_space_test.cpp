// Tests that a run without enough disk space to save is refused before it trains.
#include "train/checkpoints/disk_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "model/transformer.h"
#include "refusal.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

Config config_in(const fs::path& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model.family=gpt",
                                       "model.num_layers=2",
                                       "model.hidden_size=64",
                                       "model.num_heads=4",
                                       "model.seq_length=32",
                                       "model.vocab_size=100",
                                       "checkpoint.interval=5",
                                       "checkpoint.keep=3",
                                       "run.dir=" + (folder / "runs" / "new").string()};
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_config("", "test", settings);
}

TEST(DiskSpace, CountsWhatACheckpointHolds) {
  const ScratchFolder dir;
  const Config config = config_in(dir);
  const std::int64_t parameters = parameter_count(config.model);
  const DiskSpace space = disk_space(config);
  EXPECT_EQ(space.checkpoint, parameters * 12);
  EXPECT_EQ(space.more, 4);
  EXPECT_GT(space.free, 0);
  EXPECT_EQ(disk_space(config_in(dir, {"optimizer.moment_dtype=bf16"})).checkpoint, parameters * 8);
  EXPECT_EQ(disk_space(config_in(dir, {"checkpoint.interval=0"})).more, 1);
}

TEST(DiskSpace, RefusesWhatCannotBeSavedAndWarnsOfWhatCannotBeKept) {
  const ScratchFolder dir;
  const Config config = config_in(dir);
  EXPECT_EQ(check_disk({.checkpoint = 10, .more = 4, .free = 40}, config), "");
  EXPECT_THAT(check_disk({.checkpoint = 10, .more = 4, .free = 39}, config),
              HasSubstr("decrease checkpoint.keep"));
  EXPECT_THAT(refusal_of([&] { check_disk({.checkpoint = 10, .more = 4, .free = 9}, config); }),
              HasSubstr("the disk of run.dir"));
}

}  // namespace
}  // namespace trireme
