// Tests that any damage is refused with a message that names the file, and the tensor if affected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/hash.h"
#include "checkpoint/layout.h"
#include "growth.h"
#include "world.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<TestTensor>& tensors() {
  static const std::vector<TestTensor> all{{"alpha.weight", {6, 4}}, {"beta.bias", {10}}};
  return all;
}

std::string read_text(const fs::path& path) {
  return read_file(path);
}
void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Returns the error message from opening and reading a checkpoint; "" if it is accepted.
std::string refusal(const fs::path& path) {
  try {
    holds(path, tensors());
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
    return error.what();
  }
}

class Damage : public testing::Test {
 protected:
  Damage() {
    save_whole(folder_, tensors(), 10);
    save_whole(folder_, tensors(), 20);
  }
  ScratchFolder folder_;
  fs::path step_ = folder_ / "step-00000020";
  fs::path shard_ = step_ / "shard-00000.safetensors";
  fs::path manifest_ = step_ / "manifest.json";
};

TEST_F(Damage, EveryFlippedBitIsNoticed) {
  std::mt19937 random(1);
  for (const fs::path& path : {shard_, manifest_}) {
    const std::string good = read_text(path);
    for (int round = 0; round < 300; ++round) {
      std::string bad = good;
      const std::size_t at = random() % bad.size();
      bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
      write_text(path, bad);
      ASSERT_NE(refusal(step_), "") << path << " byte " << at;
    }
    write_text(path, good);
  }
  EXPECT_EQ(refusal(step_), "");
}

TEST_F(Damage, EveryTruncationIsNoticed) {
  for (const fs::path& path : {shard_, manifest_}) {
    const std::string good = read_text(path);
    for (std::size_t size = 0; size < good.size(); size += 7) {
      write_text(path, good.substr(0, size));
      ASSERT_NE(refusal(step_), "") << path << " cut to " << size;
    }
    write_text(path, good + "x");
    EXPECT_NE(refusal(step_), "") << path << " with a byte more";
    write_text(path, good);
  }
}

TEST_F(Damage, NamesFileAndTensor) {
  std::string bytes = read_text(shard_);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(shard_, bytes);
  EXPECT_THAT(refusal(step_), AllOf(HasSubstr("shard-00000.safetensors"), HasSubstr("beta.bias")));
  CheckpointReader reader(step_);
  EXPECT_THAT([&] { reader.verify(); }, testing::ThrowsMessage<Error>(HasSubstr("beta.bias")));
  // Undamaged tensors can still be read.
  Piece piece(tensors()[0], Region::whole(tensors()[0].shape));
  const TargetSlice target = piece.target();
  reader.read({&target, 1});
  EXPECT_EQ(piece.memory, tensors()[0].values);
}

TEST_F(Damage, VerifyIsSharedByParts) {
  std::string bytes = read_text(shard_);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(shard_, bytes);
  int refused = 0;
  for (int part = 0; part < 3; ++part) {
    try {
      CheckpointReader(step_).verify(nullptr, part, 3);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_EQ(refused, 1);
}

TEST_F(Damage, MissingFilesAreNamed) {
  fs::remove(shard_);
  EXPECT_THAT(refusal(step_), HasSubstr("shard-00000.safetensors"));
  fs::remove(manifest_);
  EXPECT_THAT(refusal(step_), HasSubstr("there is no checkpoint in"));
  EXPECT_THAT(refusal(folder_ / "nowhere"), HasSubstr("nowhere' does not exist"));
}

TEST_F(Damage, LatestThatLeadsNowhereNamesTheNewestSoundOne) {
  EXPECT_EQ(refusal(folder_), "");
  const auto names_10 =
      HasSubstr("the newest sound one is '" + (folder_ / "step-00000010").string() + "'");
  std::string bytes = read_text(shard_);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(shard_, bytes);
  EXPECT_THAT(refusal(folder_), names_10);
  write_text(manifest_, "{}");
  EXPECT_THAT(refusal(folder_), names_10);
  fs::remove(manifest_);
  EXPECT_THAT(refusal(folder_), AllOf(names_10, HasSubstr("manifest.json")));
  fs::remove_all(step_);
  EXPECT_EQ(refusal(folder_), "");  // the newest complete checkpoint
  EXPECT_THAT(find_checkpoint(folder_)->note,
              AllOf(HasSubstr("step-00000020"), HasSubstr("not there")));
  fs::remove_all(folder_ / "step-00000010");
  EXPECT_THAT(refusal(folder_),
              AllOf(HasSubstr("missing"), HasSubstr("no sound checkpoint next to it")));
  write_text(folder_ / "latest", "../../etc");
  EXPECT_THAT(refusal(folder_), HasSubstr("does not name a checkpoint"));
}

// Each task that finds a bad block reports just that; which tensors are intact is checked once.
TEST(ManyBadBlocks, AreRefusedAtOnce) {
  const ScratchFolder folder;
  std::vector<TestTensor> many;
  for (int i = 0; i < 1000; ++i) many.push_back({fmt::format("t{}", i), {64, 256}});
  save_whole(folder, many, 10);
  save_whole(folder, many, 20);
  const fs::path shard = folder / "step-00000020/shard-00000.safetensors";
  {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    std::uint64_t header = 0;
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    file.seekp(static_cast<std::streamoff>(8 + header));
    const std::vector<char> zeros(fs::file_size(shard) - 8 - header);
    file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
  }
  const double begin = processor_seconds();
  EXPECT_THAT([&] { CheckpointReader(folder).verify(); },
              testing::ThrowsMessage<DamagedCheckpoint>(
                  AllOf(HasSubstr("does not match its checksum"),
                        HasSubstr("the newest sound one is"), HasSubstr("step-00000010"))));
  // Checking once per block would read 64 GB: minutes of processor time.
  EXPECT_LT(processor_seconds() - begin, 15);
}

// A manifest with a valid checksum but false content.
class Lies : public Damage {
 protected:
  std::string refusal_after(const std::string& from, const std::string& to) {
    std::string text = good_.substr(0, good_.find(",\n\"xxh3\":\"", good_.size() - 40));
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    text += ",\n\"xxh3\":\"" + hash_to_text(hash64(text)) + "\"}\n";
    write_text(manifest_, text);
    return refusal(step_);
  }
  std::string good_ = read_text(manifest_);
};

TEST_F(Lies, AreRefused) {
  EXPECT_THAT(refusal_after(R"("version":1)", R"("version":2)"), HasSubstr("version is 2"));
  EXPECT_THAT(refusal_after("trireme-checkpoint", "something"), HasSubstr("not a checkpoint"));
  EXPECT_THAT(refusal_after(R"("block_bytes":4194304)", R"("block_bytes":0)"), HasSubstr("block"));
  EXPECT_THAT(refusal_after(R"("block_bytes":4194304)", R"("block_bytes":-8)"), HasSubstr("block"));
  EXPECT_THAT(refusal_after("shard-00000.safetensors", "../x/shard-0.safetensors"),
              HasSubstr("not the name of a shard"));
  EXPECT_THAT(refusal_after("shard-00000.safetensors", "shard-/../../x.safetensors"),
              HasSubstr("not the name of a shard"));
  EXPECT_THAT(refusal_after(R"("shape":[6,4])", R"("shape":[7,4])"),
              HasSubstr("elements are missing"));
  EXPECT_THAT(refusal_after(R"("shape":[6,4])", R"("shape":[5,4])"),
              HasSubstr("leaves the tensor"));
  EXPECT_THAT(refusal_after(R"("shape":[6,4])", R"("shape":[6,-4])"), HasSubstr("out of range"));
  EXPECT_THAT(refusal_after(R"("shape":[6,4])", R"("shape":[4294967296,4294967296])"),
              HasSubstr("out of range"));
  EXPECT_THAT(refusal_after(R"("shape":[6,4])", R"("shape":[1,1,1,1,6,4])"),
              HasSubstr("too many dimensions"));
  EXPECT_THAT(refusal_after(R"("shape":[6,4])", R"("shape":"6")"), HasSubstr("manifest.json"));
  EXPECT_THAT(refusal_after(R"("dtype":"f32")", R"("dtype":"f31")"), HasSubstr("f31"));
  EXPECT_THAT(refusal_after(R"("dtype":"f32")", R"("dtype":"f64")"), HasSubstr("f32 is needed"));
  EXPECT_THAT([&] { CheckpointReader(step_).verify(); },
              testing::ThrowsMessage<Error>(HasSubstr("as its manifest says")));
  EXPECT_THAT(refusal_after(R"("shard":0)", R"("shard":1)"), HasSubstr("shard 1"));
  EXPECT_THAT(refusal_after(R"("shard":0)", R"("shard":-1)"), HasSubstr("shard"));
  EXPECT_THAT(refusal_after(R"("key":"alpha.weight")", R"("key":"beta.bias")"),
              HasSubstr("as its manifest says"));
  EXPECT_THAT(refusal_after(R"("xxh3":[)", R"("xxh3":["0123456789abcdef",)"),
              HasSubstr("has 2 checksums, not 1"));
  EXPECT_THAT(refusal_after(R"("step":20)", R"("stop":20)"), HasSubstr("step"));
  EXPECT_EQ(refusal_after(R"("step":20)", R"("step":21)"), "");
}

}  // namespace
}  // namespace trireme
