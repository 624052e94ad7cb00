// Checkpoints that are made for a comparison: those of small models, with one thing changed.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "compare/contents.h"
#include "formats/conversion.h"
#include "importers/folder/formats.h"
#include "tensors/optimizer_states.h"

namespace trireme::testing_compare {

struct Tensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  template <class T>
  T& at(std::int64_t element) {
    return reinterpret_cast<T*>(bytes.data())[element];
  }
};

// A checkpoint in memory.
struct Held {
  CheckpointState state;
  std::map<std::string, Tensor> tensors;

  explicit Held(const fs::path& folder) {
    const Contents contents = checkpoint_contents(folder);
    state = *contents.state;
    for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
      const HeldTensor& from = contents.tensors[i];
      Tensor& to = tensors[from.name] = {from.dtype, from.shape, {}};
      to.bytes.resize(static_cast<std::size_t>(from.shape.count() * size_of(from.dtype)));
      contents.read(i, 0, from.shape.count(), to.bytes.data());
    }
  }

  void save(const fs::path& run) const {
    std::vector<SourceSlice> slices;
    for (const auto& [name, tensor] : tensors)
      slices.push_back(
          {name, tensor.dtype, tensor.shape, Region::whole(tensor.shape), tensor.bytes.data()});
    save_checkpoint({run / "checkpoints"}, state, slices);
  }
};

// A folder that the test leaves nothing of.
class Folders : public testing::Test {
 protected:
  Folders() { fs::create_directories(folder_); }
  ~Folders() override { fs::remove_all(folder_); }

  fs::path path(const std::string& name) const { return folder_ / name; }
  static fs::path foreign(const std::string& name) {
    return fs::path(TRIREME_TESTS) / "formats/data" / name;
  }
  // A run made of a folder of another program.
  fs::path import(const std::string& from, const std::string& name) const {
    import_model(foreign_format("", foreign(from)).open(foreign(from), {}), path(name), "test",
                 nullptr);
    return path(name);
  }
  // A model, as a run in the middle of its training would save it.
  Held trained(const std::string& from = "hf/llama") const {
    Held held(import(from, "imported"));
    held.state.step = 30;
    held.state.consumed_samples = 240;
    held.state.counters = {{"scheduled_samples", 240}};
    held.state.numbers = {{"loss_scale", 1.0}};
    std::erase_if(held.tensors, [](const auto& t) { return t.first.starts_with("optimizer."); });
    const auto weights = held.tensors;
    for (const auto& [name, tensor] : weights)
      for (int which = 0; which < adam_moments; ++which)
        held.tensors[moment_name(name, which)] = tensor;
    fs::remove_all(path("imported"));
    return held;
  }

  fs::path folder_ = fs::path(testing::TempDir()) /
                     ("trireme_compare_" + std::to_string(::getpid()) + "_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name());
};

}  // namespace trireme::testing_compare
