// One thread per rank sends and receives; ranks agree on the result afterwards.
#include "train/checkpoints/local_copies.h"

#include <fmt/format.h>

#include <numeric>
#include <system_error>
#include <utility>

#include "train/run/ranks.h"

namespace trireme {
namespace {

std::unique_ptr<Communicator> group_of_all(Transport& transport) {
  std::vector<int> ranks(static_cast<std::size_t>(transport.place().size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return transport.group(std::move(ranks), "copies of local checkpoints");
}

}  // namespace

LocalCopies::LocalCopies(Transport& transport, FileProgress* files)
    : transport_(transport), files_(files), group_(group_of_all(transport)) {}

LocalCopies::~LocalCopies() {
  canceled_ = true;
  if (thread_.joinable()) thread_.join();
}

void LocalCopies::start(std::int64_t step, std::vector<MovedCheckpoint> sends,
                        std::vector<MovedCheckpoint> receives) {
  finish();
  step_ = step;
  busy_ = true;
  try {
    thread_ = std::thread([this, sends, receives] { work(sends, receives); });
  } catch (const std::system_error&) {  // no thread available: copy now
    work(sends, receives);
  }
}

void LocalCopies::work(const std::vector<MovedCheckpoint>& sends,
                       const std::vector<MovedCheckpoint>& receives) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    failure_ = exchange_checkpoints(*group_, sends, receives, files_, &canceled_);
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  busy_ = false;
}

std::optional<CopyReport> LocalCopies::finish() {
  if (!started()) return std::nullopt;
  if (thread_.joinable()) {
    const FileProgress::Phase phase(files_, "is copying a local checkpoint to another node");
    thread_.join();
  }
  CopyReport report{std::exchange(step_, -1), seconds_, std::exchange(failure_, "")};
  if (!report.failure.empty())
    report.failure = fmt::format("rank {}: {}", transport_.place().rank, report.failure);
  report.failure = first_failure(&transport_, report.failure);
  return report;
}

}  // namespace trireme
