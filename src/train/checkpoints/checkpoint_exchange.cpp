// Both sides derive the same pieces from the sizes of the two files, which are sent first.
#include "train/checkpoints/checkpoint_exchange.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "checkpoint/tidy.h"

namespace trireme {
namespace {

constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;

// Sizes of a checkpoint's files, and the position in their bytes: the shard precedes the manifest.
struct Position {
  std::array<std::int64_t, 2> sizes{};  // shard, manifest; -1: the sender cannot read them
  std::int64_t at = 0;

  bool in_shard() const { return at < sizes[0]; }
  bool done() const { return at >= sizes[0] + sizes[1]; }
  std::int64_t next() const {
    return std::min(piece_bytes, sizes[0] + (in_shard() ? 0 : sizes[1]) - at);
  }
};

// One checkpoint on its way. Its first error is kept, and later pieces are then ignored.
class Moving {
 public:
  explicit Moving(const MovedCheckpoint& what) : what_(what), buffer_(new std::byte[piece_bytes]) {}

  bool done() const { return position_.done(); }
  const std::string& failure() const { return failure_; }
  Transfer sizes(Transfer::Direction direction) {
    return {direction, what_.peer, position_.sizes.data(), 2, DType::i64};
  }
  Transfer piece(Transfer::Direction direction) {
    return {direction, what_.peer, buffer_.get(), position_.next(), DType::u8};
  }

 protected:
  template <class Body>
  void guarded(const Body& body) {
    if (!failure_.empty()) return;
    try {
      body();
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
  }

  MovedCheckpoint what_;
  Position position_;
  std::unique_ptr<std::byte[]> buffer_;
  std::optional<File> shard_;
  std::string manifest_, failure_;
};

class Sent : public Moving {
 public:
  explicit Sent(const MovedCheckpoint& what) : Moving(what) {
    guarded([&] {
      const fs::path folder = what_.folder / step_folder(what_.step);
      if (fs::exists(folder / shard_file(0)))
        shard_.emplace(folder / shard_file(0), File::Mode::read);
      manifest_ = read_file(folder / manifest_file, max_manifest_bytes);
      position_.sizes = {shard_ ? static_cast<std::int64_t>(shard_->size()) : 0,
                         static_cast<std::int64_t>(manifest_.size())};
    });
    if (!failure_.empty()) position_.sizes = {-1, -1};
  }

  // A piece that cannot be read is sent with other contents, which the receiver detects.
  void fill() {
    const std::int64_t count = position_.next();
    guarded([&] {
      if (position_.in_shard()) {
        shard_->read_at(static_cast<std::uint64_t>(position_.at), buffer_.get(),
                        static_cast<std::size_t>(count));
      } else {
        std::copy_n(manifest_.data() + (position_.at - position_.sizes[0]), count,
                    reinterpret_cast<char*>(buffer_.get()));
      }
    });
  }
  void advance() { position_.at += position_.next(); }
};

class Received : public Moving {
 public:
  explicit Received(const MovedCheckpoint& what)
      : Moving(what),
        partial_(what.folder / partial_folder(what.step)),
        aside_(what.folder / replaced_folder(what.step)) {}
  ~Received() { remove_folder(partial_, nullptr); }

  void begin() {
    guarded([&] {
      if (position_.sizes[1] < 0) fail("its owner cannot read it");
      for (const fs::path& leftover : {partial_, aside_}) remove_or_fail(leftover);
      make_folders(partial_);
      if (position_.sizes[0] > 0) shard_.emplace(partial_ / shard_file(0), File::Mode::create);
    });
  }

  void take() {
    const std::int64_t count = position_.next();
    guarded([&] {
      if (position_.in_shard())
        shard_->write(buffer_.get(), static_cast<std::size_t>(count));
      else
        manifest_.append(reinterpret_cast<const char*>(buffer_.get()),
                         static_cast<std::size_t>(count));
    });
    position_.at += count;
  }

  void finish() {
    guarded([&] {
      if (shard_) {
        shard_->sync();
        shard_->close();
      }
      write_file_durably(partial_ / manifest_file, manifest_);
      CheckpointReader(partial_).verify(nullptr);
      replace_folder(partial_, what_.folder / step_folder(what_.step), aside_);
      sync_folder(what_.folder);
      remove_or_fail(aside_);
    });
  }

 private:
  static void remove_or_fail(const fs::path& folder) {
    if (const std::string why = remove_folder(folder, nullptr); !why.empty()) fail("{}", why);
  }

  fs::path partial_, aside_;
};

// Returns false if the exchange was canceled.
bool wait_for(Work& work, const std::atomic<bool>* cancel) {
  if (!cancel) work.wait();
  while (!work.done()) {
    if (*cancel) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class CheckpointExchange {
 public:
  CheckpointExchange(const std::vector<MovedCheckpoint>& sends,
                     const std::vector<MovedCheckpoint>& receives) {
    for (const MovedCheckpoint& one : sends) sent_.push_back(std::make_unique<Sent>(one));
    for (const MovedCheckpoint& one : receives)
      received_.push_back(std::make_unique<Received>(one));
  }

  // `pass` sends and receives, and returns false if the exchange is canceled. Returns the same.
  template <class Pass>
  bool run(const Pass& pass) {
    std::vector<Transfer> transfers;
    for (const auto& one : sent_) transfers.push_back(one->sizes(Transfer::Direction::send));
    for (const auto& one : received_) transfers.push_back(one->sizes(Transfer::Direction::receive));
    if (!pass(transfers)) return false;
    for (const auto& one : received_) one->begin();
    for (transfers = pieces(); !transfers.empty(); transfers = pieces()) {
      if (!pass(transfers)) return false;
      for (const auto& one : sent_)
        if (!one->done()) one->advance();
      for (const auto& one : received_)
        if (!one->done()) one->take();
    }
    for (const auto& one : received_) one->finish();
    return true;
  }

  std::string first_failure() const {
    for (const auto& one : sent_)
      if (!one->failure().empty()) return one->failure();
    for (const auto& one : received_)
      if (!one->failure().empty()) return one->failure();
    return "";
  }

 private:
  // The next piece of every checkpoint that has one left.
  std::vector<Transfer> pieces() {
    std::vector<Transfer> pieces;
    for (const auto& one : sent_) {
      if (one->done()) continue;
      one->fill();
      pieces.push_back(one->piece(Transfer::Direction::send));
    }
    for (const auto& one : received_)
      if (!one->done()) pieces.push_back(one->piece(Transfer::Direction::receive));
    return pieces;
  }

  std::vector<std::unique_ptr<Sent>> sent_;
  std::vector<std::unique_ptr<Received>> received_;
};

// The network may still write to the buffers of an exchange that was canceled: they are kept until
// the process ends.
void keep_forever(std::unique_ptr<CheckpointExchange> exchange) {
  static std::mutex guard;
  static auto* const kept = new std::vector<std::unique_ptr<CheckpointExchange>>;
  const std::lock_guard lock(guard);
  kept->push_back(std::move(exchange));
}

}  // namespace

std::string exchange_checkpoints(Communicator& group, const std::vector<MovedCheckpoint>& sends,
                                 const std::vector<MovedCheckpoint>& receives,
                                 FileProgress* progress, const std::atomic<bool>* cancel) {
  if (sends.empty() && receives.empty()) return "";
  auto exchange = std::make_unique<CheckpointExchange>(sends, receives);
  const bool complete = exchange->run([&](const std::vector<Transfer>& transfers) {
    Work work = group.exchange(transfers, "local checkpoints");
    if (progress) progress->moved(0);
    return wait_for(work, cancel);
  });
  if (complete) return exchange->first_failure();
  keep_forever(std::move(exchange));
  return "the copy was interrupted";
}

}  // namespace trireme
