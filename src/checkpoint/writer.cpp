// Saving: shards are hashed block by block while being written; rank 0 renames the checkpoint into
// place and only then removes old ones.
#include "checkpoint/writer.h"

#include <algorithm>

#include "base/as_error.h"
#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/tidy.h"

namespace trireme {
namespace {

// Messages between ranks: a tag letter, then text.
constexpr char tag_done = 'D';
constexpr char tag_input_failure = 'I';  // exit code 2
constexpr char tag_failure = 'F';        // exit code 1

// Runs `body`; exceptions become a tagged failure.
template <class Body>
std::string tagged(Body&& body) {
  try {
    return tag_done + std::string(body());
  } catch (const std::exception& caught) {
    const Error error = as_error(caught);
    const char tag = error.code() == ExitCode::bad_input ? tag_input_failure : tag_failure;
    return tag + std::string(error.what());
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(SaveOptions options, CheckpointState state, Ranks ranks)
    : options_(std::move(options)),
      state_(std::move(state)),
      ranks_(std::move(ranks)),
      partial_(options_.folder / partial_folder(state_.step)),
      final_(options_.folder / step_folder(state_.step)) {
  std::string outcome;
  if (ranks_.rank == 0) {
    const FileProgress::Phase phase(ranks_.progress, "is preparing a checkpoint");
    outcome = tagged([&] {
      make_folders(options_.folder);
      if (const std::string why = remove_folder(partial_, ranks_.progress); !why.empty())
        fail("{}", why);
      make_folders(partial_);
      partial_is_there_ = true;
      return "";
    });
  }
  outcome = from_rank_0(outcome);
  if (outcome[0] != tag_done) fail_everywhere(outcome);
}

CheckpointWriter::~CheckpointWriter() {
  if (!partial_is_there_) return;
  std::error_code ignored;  // the next successful save removes it
  fs::remove_all(partial_, ignored);
}

std::string CheckpointWriter::from_rank_0(const std::string& text) const {
  return ranks_.size == 1 ? text : ranks_.broadcast(text);
}

void CheckpointWriter::fail_everywhere(const std::string& failure) const {
  throw Error(failure[0] == tag_input_failure ? ExitCode::bad_input : ExitCode::failed,
              fmt::format("cannot save checkpoint '{}': {}; what was saved before is untouched",
                          final_.string(), failure.substr(1)));
}

void CheckpointWriter::write(std::span<const SourceSlice> slices, ThreadPool* pool,
                             const Producer& producer) noexcept {
  report_ = tagged([&] {
    return to_text(write_shard(partial_, ranks_.rank, slices, pool, producer, ranks_.progress));
  });
}

Manifest CheckpointWriter::join(const std::vector<std::string>& reports) const {
  std::vector<Manifest> parts;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const std::string& report = reports[rank];
    const std::string who = ranks_.size == 1 ? "" : fmt::format("rank {}: ", rank);
    if (report.empty()) fail("{}nothing was written", who);
    if (report[0] != tag_done) {
      throw Error(report[0] == tag_input_failure ? ExitCode::bad_input : ExitCode::failed,
                  who + report.substr(1));
    }
    parts.push_back(parse_manifest(std::string_view(report).substr(1), who + "report"));
  }
  Manifest manifest = merge(parts);
  manifest.program = options_.program;
  manifest.state = state_;
  check_complete(manifest, final_.string());
  for (const StoredShard& shard : manifest.shards) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(partial_ / shard.file, error);
    if (error || size != shard.bytes) {
      fail(
          "rank 0 does not see the {} bytes of '{}' that another rank wrote; the folder must lie "
          "on a file system that all ranks share",
          shard.bytes, (partial_ / shard.file).string());
    }
  }
  return manifest;
}

void CheckpointWriter::put_in_place(const Manifest& manifest) {
  const auto done = [&] {
    if (ranks_.progress) ranks_.progress->moved(0);
  };
  write_file_durably(partial_ / manifest_file, to_text(manifest));
  done();
  replace_folder(partial_, final_, options_.folder / replaced_folder(state_.step));
  partial_is_there_ = false;
  done();
  sync_folder(options_.folder);
  done();
  write_file_durably(options_.folder / latest_file, step_folder(state_.step) + "\n");
  done();
}

// Removes leftovers and checkpoints beyond `keep`. Later steps belong to another branch of training
// and are kept. A folder is renamed before its removal, so that a partly removed one does not look
// like a checkpoint.
std::string CheckpointWriter::clean_up() const {
  std::error_code error;
  std::string warning;
  std::vector<std::int64_t> older = saved_steps(options_.folder);
  std::erase_if(older, [&](std::int64_t step) { return step >= state_.step; });
  const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(options_.keep - 1, 0));
  if (options_.keep > 0 && older.size() > kept) {
    older.resize(older.size() - kept);
    for (const std::int64_t step : older) {
      const fs::path from = options_.folder / step_folder(step);
      fs::rename(from, options_.folder / partial_folder(step), error);
      if (error) warning = fmt::format("cannot remove '{}': {}", from.string(), error.message());
    }
  }
  for (const fs::path& path : partial_folders(options_.folder)) {
    const auto replaced = replaced_step_of(path.filename().string());
    if (replaced && !fs::exists(options_.folder / step_folder(*replaced)))
      continue;  // the only one of its step
    const std::string failure = remove_folder(path, ranks_.progress);
    if (!failure.empty()) warning = failure;
  }
  return warning;
}

// Completes a save on rank 0 after all ranks have written: "<bytes> <warning>", tagged.
std::string CheckpointWriter::complete(const std::vector<std::string>& reports) {
  const FileProgress::Phase phase(ranks_.progress, "is completing a checkpoint");
  if (ranks_.progress) ranks_.progress->expect(0);
  return tagged([&] {
    const Manifest manifest = join(reports);
    put_in_place(manifest);
    std::uint64_t bytes = 0;
    for (const StoredShard& shard : manifest.shards) bytes += shard.bytes;
    return fmt::format("{} {}", bytes, clean_up());
  });
}

SaveReport CheckpointWriter::commit() {
  const std::vector<std::string> reports =
      ranks_.size == 1 ? std::vector{report_} : ranks_.gather(report_);
  const std::string outcome = from_rank_0(ranks_.rank == 0 ? complete(reports) : "");
  if (outcome[0] != tag_done) fail_everywhere(outcome);
  const std::size_t space = outcome.find(' ');
  return {final_, std::stoll(outcome.substr(1, space - 1)),
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(),
          outcome.substr(space + 1)};
}

SaveReport save_checkpoint(const SaveOptions& options, const CheckpointState& state,
                           std::span<const SourceSlice> slices, const Ranks& ranks,
                           ThreadPool* pool) {
  CheckpointWriter writer(options, state, ranks);
  {
    const FileProgress::Phase phase(ranks.progress, "is writing a checkpoint");
    writer.write(slices, pool);
  }
  return writer.commit();
}

}  // namespace trireme
