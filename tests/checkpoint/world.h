// Helpers shared by the tests of this module: several ranks as threads, and tensors with known
// values, split into slices.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/file.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "scratch_folder.h"

namespace trireme {

// Runs body(ranks) on `size` threads that can gather and broadcast. Bodies must catch exceptions.
inline void run_ranks(int size, const std::function<void(const Ranks&)>& body) {
  std::barrier barrier(size);
  std::vector<std::string> said(static_cast<std::size_t>(size));
  std::string word;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks ranks{rank, size};
      ranks.gather = [&, rank](const std::string& mine) {
        said[static_cast<std::size_t>(rank)] = mine;
        barrier.arrive_and_wait();
        std::vector<std::string> all = rank == 0 ? said : std::vector<std::string>{};
        barrier.arrive_and_wait();
        return all;
      };
      ranks.broadcast = [&, rank](const std::string& mine) {
        if (rank == 0) word = mine;
        barrier.arrive_and_wait();
        std::string heard = word;
        barrier.arrive_and_wait();
        return heard;
      };
      body(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A float tensor whose element i is a function of its name and i.
struct TestTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;

  TestTensor(std::string tensor, const Shape& dims, float salt = 0)
      : name(std::move(tensor)), shape(dims), values(static_cast<std::size_t>(dims.count())) {
    const float start = static_cast<float>(name.size()) * 1000 + salt;
    std::iota(values.begin(), values.end(), start);
  }
};

// One rank's piece of a tensor, with its own memory.
struct Piece {
  SourceSlice slice;  // without data
  std::vector<float> memory;

  Piece(const TestTensor& tensor, const Region& region)
      : slice{tensor.name, DType::f32, tensor.shape, region},
        memory(static_cast<std::size_t>(region.count()), -1.0f) {}
  // Fills the memory element by element: slow but simple, to verify the module's index arithmetic.
  void fill_from(const TestTensor& tensor) {
    const Region& r = slice.region;
    for (std::int64_t k = r.begin; k < r.end; ++k) {
      std::int64_t rest = k, position = 0, stride = 1;
      for (int i = r.shape.rank() - 1; i >= 0; --i) {
        position += (r.offset[i] + rest % r.shape[i]) * stride;
        rest /= r.shape[i];
        stride *= tensor.shape[i];
      }
      memory[static_cast<std::size_t>(k - r.begin)] =
          tensor.values[static_cast<std::size_t>(position)];
    }
  }
  SourceSlice source() const {
    return {slice.name, slice.dtype, slice.tensor, slice.region,
            reinterpret_cast<const std::byte*>(memory.data())};
  }
  TargetSlice target() {
    return {slice.name, slice.dtype, slice.tensor, slice.region,
            reinterpret_cast<std::byte*>(memory.data())};
  }
};

// Maps a tensor to the regions that each rank has of it.
using Layout = std::function<std::vector<Region>(const TestTensor& tensor, int rank, int size)>;

inline std::vector<Piece> pieces_of(const std::vector<TestTensor>& tensors, const Layout& layout,
                                    int rank, int size) {
  std::vector<Piece> pieces;
  for (const TestTensor& tensor : tensors) {
    for (const Region& region : layout(tensor, rank, size)) pieces.emplace_back(tensor, region);
  }
  return pieces;
}

inline std::vector<SourceSlice> filled_sources(std::vector<Piece>& pieces,
                                               const std::vector<TestTensor>& tensors) {
  std::vector<SourceSlice> sources;
  for (Piece& piece : pieces) {
    for (const TestTensor& tensor : tensors) {
      if (tensor.name == piece.slice.name) piece.fill_from(tensor);
    }
    sources.push_back(piece.source());
  }
  return sources;
}

inline std::vector<TargetSlice> targets_of(std::vector<Piece>& pieces) {
  std::vector<TargetSlice> targets;
  for (Piece& piece : pieces) targets.push_back(piece.target());
  return targets;
}

// Assigns every tensor to one rank as a single slice.
inline std::vector<Region> whole_layout(const TestTensor& tensor, int rank, int) {
  if (rank != 0) return {};
  return {Region::whole(tensor.shape)};
}

inline SaveReport save_whole(const fs::path& folder, const std::vector<TestTensor>& tensors,
                             std::int64_t step, std::int64_t keep = 0) {
  std::vector<Piece> pieces = pieces_of(tensors, whole_layout, 0, 1);
  CheckpointState state;
  state.step = step;
  return save_checkpoint({folder, "trireme test", keep}, state, filled_sources(pieces, tensors), {},
                         nullptr);
}

// Reads every tensor in full and compares it.
inline bool holds(const fs::path& path, const std::vector<TestTensor>& tensors) {
  CheckpointReader reader(path);
  std::vector<Piece> pieces = pieces_of(tensors, whole_layout, 0, 1);
  reader.read(targets_of(pieces), {});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (pieces[i].memory != tensors[i].values) return false;
  }
  return true;
}

}  // namespace trireme
