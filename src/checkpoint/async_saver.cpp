// Copies tensors on the pool, then writes without it: the pool belongs to training.
#include "checkpoint/async_saver.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

namespace trireme {

AsyncSaver::AsyncSaver(SaveOptions options, Ranks ranks, ThreadPool* pool)
    : options_(std::move(options)), ranks_(std::move(ranks)), pool_(pool) {}

AsyncSaver::~AsyncSaver() {
  if (thread_.joinable()) thread_.join();
}

double AsyncSaver::start(const CheckpointState& state, std::span<const SourceSlice> slices) {
  finish();
  writer_ = std::make_unique<CheckpointWriter>(options_, state, ranks_);
  const auto begin = std::chrono::steady_clock::now();
  copy_slices(slices);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  written_ = false;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {  // no thread available: write synchronously
    work();
  }
  return seconds.count();
}

void AsyncSaver::copy_slices(std::span<const SourceSlice> slices) {
  std::size_t bytes = 0;
  for (const SourceSlice& slice : slices) bytes += static_cast<std::size_t>(slice.bytes());
  if (bytes > memory_bytes_) {
    memory_.reset();
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    memory_bytes_ = bytes;
  }
  struct Piece {
    std::byte* dst;
    const SourceSlice* src;
    std::int64_t begin, bytes;
  };
  constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;
  std::vector<Piece> pieces;
  copies_.assign(slices.begin(), slices.end());
  std::byte* next = memory_.get();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const std::int64_t size = slices[i].bytes();
    for (std::int64_t at = 0; at < size; at += piece_bytes)
      pieces.push_back({next + at, &slices[i], at, std::min(piece_bytes, size - at)});
    copies_[i].data = next;
    copies_[i].device = nullptr;
    copies_[i].store = nullptr;
    next += size;
  }
  pool_->run(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t task, int) {
    const Piece& piece = pieces[static_cast<std::size_t>(task)];
    piece.src->access(piece.begin, piece.bytes, [&](const std::byte* from) {
      std::memcpy(piece.dst, from, static_cast<std::size_t>(piece.bytes));
    });
  });
}

void AsyncSaver::work() {
  writer_->write(copies_);
  try {
    if (ranks_.size == 1) report_ = writer_->commit();
  } catch (...) {
    error_ = std::current_exception();
  }
  written_ = true;
}

std::optional<SaveReport> AsyncSaver::finish() {
  if (!writer_) return std::nullopt;
  if (thread_.joinable()) {
    const FileProgress::Phase phase(ranks_.progress, "is writing a checkpoint");
    thread_.join();
  }
  const std::unique_ptr<CheckpointWriter> writer = std::move(writer_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (ranks_.size > 1) return writer->commit();
  return std::exchange(report_, std::nullopt);
}

}  // namespace trireme
