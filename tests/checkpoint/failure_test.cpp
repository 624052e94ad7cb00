// Tests that failed saves keep earlier checkpoints, and killed saves leave a loadable checkpoint.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <fstream>
#include <random>

#include "checkpoint/async_saver.h"
#include "checkpoint/layout.h"
#include "world.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// Runs body in a child process; returns true if body returned true.
bool in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string failure(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

const std::vector<TestTensor>& small() {
  static const std::vector<TestTensor> all{{"weight", {8, 8}}};
  return all;
}

TEST(FailedSave, LeavesWhatWasSavedBefore) {
  const ScratchFolder folder;
  save_whole(folder, small(), 10);
  const std::vector<TestTensor> large{{"large", {512, 1024}}};
  // Files are limited to 1 MB: the save of 2 MB fails partway, as on a full disk.
  EXPECT_TRUE(in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = failure([&] { save_whole(folder, large, 20, 1); });
    EXPECT_THAT(message, AllOf(HasSubstr("cannot save checkpoint"), HasSubstr("step-00000020"),
                               HasSubstr("File too large"), HasSubstr("untouched")));
    return !testing::Test::HasFailure();
  }));
  EXPECT_THAT(saved_steps(folder), ElementsAre(10));
  EXPECT_THAT(partial_folders(folder), IsEmpty());
  EXPECT_TRUE(holds(folder, small()));
}

// Mounts a 1 MB file system in a private namespace; needs root or user namespaces.
bool mount_small_disk(const fs::path& folder) {
  const auto write_line = [](const char* path, const std::string& line) {
    std::ofstream(path) << line;
  };
  if (::getuid() == 0) {
    if (::unshare(CLONE_NEWNS) != 0) return false;
  } else {
    const std::string user = std::to_string(::getuid()), group = std::to_string(::getgid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write_line("/proc/self/setgroups", "deny");
    write_line("/proc/self/uid_map", user + " " + user + " 1");
    write_line("/proc/self/gid_map", group + " " + group + " 1");
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
}

TEST(FailedSave, OnAFullDiskSaysSo) {
  const ScratchFolder folder;
  if (!in_child([&] { return mount_small_disk(folder); })) {
    GTEST_SKIP() << "needs the right to mount a small file system";
  }
  EXPECT_TRUE(in_child([&] {
    mount_small_disk(folder);
    save_whole(folder, small(), 10);
    const std::vector<TestTensor> large{{"large", {512, 1024}}};
    const std::string message = failure([&] { save_whole(folder, large, 20); });
    EXPECT_THAT(message, HasSubstr("No space left on device"));
    EXPECT_THAT(saved_steps(folder), ElementsAre(10));
    EXPECT_THAT(partial_folders(folder), IsEmpty());
    EXPECT_TRUE(holds(folder, small()));
    save_whole(folder, small(), 30);  // the failed save has released its space
    EXPECT_EQ(read_latest(folder), "step-00000030");
    return !testing::Test::HasFailure();
  }));
}

TEST(FailedSave, IntoAFolderThatCannotBeMadeIsTheUsersFault) {
  const ScratchFolder folder;
  std::ofstream(folder / "file").put('x');
  try {
    save_whole(folder / "file/checkpoints", small(), 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr((folder / "file/checkpoints").string()));
  }
}

TEST(FailedSave, OfOneRankReachesAll) {
  const ScratchFolder folder;
  save_whole(folder, small(), 10);
  run_ranks(4, [&](const Ranks& ranks) {
    std::vector<Piece> pieces = pieces_of(
        small(),
        [](const TestTensor& tensor, int rank, int) {
          return std::vector{Region::range(tensor.shape, rank * 16, rank * 16 + 16)};
        },
        ranks.rank, ranks.size);
    CheckpointState state;
    state.step = 20;
    EXPECT_THAT(
        [&] {
          CheckpointWriter writer({folder}, state, ranks);
          // A folder occupies the path where rank 2 wants to write its shard.
          if (ranks.rank == 2) fs::create_directories(folder / "step-00000020.tmp" / shard_file(2));
          writer.write(filled_sources(pieces, small()));
          writer.commit();
        },
        ThrowsMessage<Error>(AllOf(HasSubstr("rank 2"), HasSubstr(shard_file(2)))));
  });
  EXPECT_THAT(saved_steps(folder), ElementsAre(10));
  EXPECT_THAT(partial_folders(folder), IsEmpty());
}

TEST(FailedSave, WithoutCommitLeavesNothing) {
  const ScratchFolder folder;
  { CheckpointWriter(SaveOptions{folder}, CheckpointState{}).write({}); }
  EXPECT_TRUE(fs::is_empty(static_cast<const fs::path&>(folder)));
}

TEST(AsyncSave, WritesWhatWasThereAtTheStart) {
  const ScratchFolder folder;
  std::vector<Piece> pieces = pieces_of(small(), whole_layout, 0, 1);
  const std::vector<SourceSlice> slices = filled_sources(pieces, small());
  AsyncSaver saver({folder});
  EXPECT_EQ(saver.finish(), std::nullopt);
  for (const int step : {1, 2, 3}) {
    CheckpointState state;
    state.step = step;
    filled_sources(pieces, small());
    saver.start(state, slices);
    for (float& value : pieces[0].memory) value = -7;  // training continues
  }
  const auto report = saver.finish();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->folder, folder / "step-00000003");
  EXPECT_GT(report->bytes, 256);
  EXPECT_TRUE(saver.written());
  for (const std::int64_t step : saved_steps(folder)) {
    EXPECT_TRUE(holds(folder / step_folder(step), small()));
  }
  EXPECT_EQ(saved_steps(folder).size(), 3u);
}

TEST(AsyncSave, CompletesWithoutFinish) {
  const ScratchFolder folder;
  AsyncSaver saver({folder});
  saver.start({.step = 5}, {});
  while (!saver.written()) std::this_thread::yield();
  EXPECT_EQ(read_latest(folder), "step-00000005");
}

TEST(AsyncSave, RanksFinishTogether) {
  const ScratchFolder folder;
  run_ranks(4, [&](const Ranks& ranks) {
    std::vector<Piece> pieces = pieces_of(
        small(),
        [](const TestTensor& tensor, int rank, int) {
          return std::vector{Region::range(tensor.shape, rank * 16, rank * 16 + 16)};
        },
        ranks.rank, ranks.size);
    ThreadPool pool(1);
    AsyncSaver saver({folder}, ranks, &pool);
    saver.start({.step = 1}, filled_sources(pieces, small()));
    saver.start({.step = 2}, filled_sources(pieces, small()));  // waits for the first save
    EXPECT_EQ(saver.finish()->folder.filename(), "step-00000002");
  });
  EXPECT_THAT(saved_steps(folder), ElementsAre(1, 2));
  EXPECT_TRUE(holds(folder, small()));
}

TEST(AsyncSave, ErrorsSurfaceAtTheNextCall) {
  const ScratchFolder folder;
  AsyncSaver saver({folder});
  std::vector<Piece> pieces = pieces_of(small(), whole_layout, 0, 1);
  std::vector<SourceSlice> twice = filled_sources(pieces, small());
  twice.push_back(twice[0]);
  twice[1].region.begin = 1;  // overlaps the first piece
  saver.start({.step = 1}, twice);
  EXPECT_THAT([&] { saver.start({.step = 2}, {}); },
              ThrowsMessage<Error>(HasSubstr("not stored exactly once")));
  saver.start({.step = 3}, {});
  EXPECT_EQ(saver.finish()->folder.filename(), "step-00000003");
}

// Saves forever: step n has tensors that are functions of n. Writes 's' to the pipe after each save
// that it considers complete.
[[noreturn]] void save_until_killed(const fs::path& folder, int pipe, std::int64_t step,
                                    bool async) {
  ThreadPool pool(1);
  AsyncSaver saver({folder, "trireme test", 2}, {}, &pool);
  for (;; ++step) {
    const std::vector<TestTensor> tensors{{"first", {64, 512}, static_cast<float>(step)},
                                          {"second", {100}, static_cast<float>(step)}};
    std::vector<Piece> pieces = pieces_of(tensors, whole_layout, 0, 1);
    const std::vector<SourceSlice> slices = filled_sources(pieces, tensors);
    if (async) {
      saver.start({.step = step}, slices);
      if (step % 3 == 0) continue;  // the next start() waits instead
      saver.finish();
    } else {
      save_checkpoint({folder, "trireme test", 2}, {.step = step}, slices, {}, nullptr);
    }
    if (::write(pipe, &step, sizeof step) != sizeof step) ::_exit(1);
  }
}

void kill_at_random_moments(bool async, int kills) {
  const ScratchFolder folder;
  std::mt19937 random(async ? 2 : 1);
  std::int64_t next = 1;
  int with_leftover = 0;
  for (int round = 0; round < kills; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) save_until_killed(folder, pipe[1], next, async);
    ::close(pipe[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 25000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::int64_t said = next - 1;  // the last step that the child considered saved
    for (std::int64_t step; ::read(pipe[0], &step, sizeof step) == sizeof step;) said = step;
    ::close(pipe[0]);
    with_leftover += partial_folders(folder).empty() ? 0 : 1;
    if (!find_checkpoint(folder)) {
      ASSERT_EQ(said, 0);
      continue;
    }
    CheckpointReader reader(folder);
    reader.verify(nullptr);
    const std::int64_t step = reader.state().step;
    ASSERT_GE(step, said) << "a checkpoint that was reported as saved is lost";
    ASSERT_TRUE(holds(folder, {{"first", {64, 512}, static_cast<float>(step)},
                               {"second", {100}, static_cast<float>(step)}}));
    next = step + 1;
  }
  EXPECT_GT(next, 5);
  EXPECT_GT(with_leftover, 0) << "no kill hit a save";
  save_whole(folder, small(), next + 10);
  EXPECT_THAT(partial_folders(folder), IsEmpty());
}

TEST(KilledSave, LeavesASoundCheckpoint) {
  kill_at_random_moments(false, 60);
}
TEST(KilledSave, LeavesASoundCheckpointWhenAsynchronous) {
  kill_at_random_moments(true, 60);
}
TEST(SlowKilledSave, ManyTimes) {
  kill_at_random_moments(false, 300);
  kill_at_random_moments(true, 300);
}

}  // namespace
}  // namespace trireme
