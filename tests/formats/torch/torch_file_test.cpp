// Tests that files written by PyTorch (data/make_torch_files.py) give the tensors that PyTorch
// reports for them.
#include "formats/torch/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/torch/forged.h"

namespace trireme {
namespace {

using testing::HasSubstr;

fs::path data(const std::string& name) {
  return fs::path(TRIREME_TEST_DATA) / name;
}

double element(const TorchType& type, const std::byte* bytes) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, bytes, sizeof value);
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<double>(value);
    } else {
      return static_cast<double>(static_cast<float>(value));
    }
  };
  if (type.name == "F32") return as(float{});
  if (type.name == "F64") return as(double{});
  if (type.name == "F16") return as(f16{});
  if (type.name == "BF16") return as(bf16{});
  if (type.name == "I64") return as(std::int64_t{});
  if (type.name == "I32") return as(std::int32_t{});
  if (type.name == "I16") return as(std::int16_t{});
  if (type.name == "U16") return as(std::uint16_t{});
  if (type.name == "I8") return as(std::int8_t{});
  if (type.name == "U8" || type.name == "BOOL") return as(std::uint8_t{});
  return NAN;
}

std::vector<double> values(const TorchFile& file, const PickleTensor& tensor, std::int64_t begin,
                           std::int64_t end) {
  const auto size = static_cast<std::size_t>(tensor.type->bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin) * size);
  file.read(tensor, begin, end, bytes.data());
  std::vector<double> out;
  for (std::int64_t i = 0; i < end - begin; ++i) {
    out.push_back(element(*tensor.type, bytes.data() + static_cast<std::size_t>(i) * size));
  }
  return out;
}

class RealFile : public testing::TestWithParam<const char*> {};

TEST_P(RealFile, HoldsWhatPyTorchSays) {
  const TorchFile file(data(GetParam()));
  file.verify();
  std::ifstream text(data(std::string(GetParam()) + ".json"));
  auto expected = nlohmann::json::parse(text);
  for (const TorchEntry& entry : torch_entries(file.pickle(), file.pickle().root())) {
    SCOPED_TRACE(entry.name);
    ASSERT_TRUE(expected.contains(entry.name));
    const nlohmann::json known = expected.at(entry.name);
    EXPECT_EQ(entry.tensor.type->name, known.at("type").get<std::string>());
    EXPECT_EQ(entry.tensor.shape, known.at("shape").get<std::vector<std::int64_t>>());
    const auto wanted = known.at("values").get<std::vector<double>>();
    ASSERT_EQ(static_cast<std::size_t>(entry.tensor.count()), wanted.size());
    if (entry.tensor.type->name != "F8_E4M3") {
      EXPECT_EQ(values(file, entry.tensor, 0, entry.tensor.count()), wanted);
      for (std::int64_t i = 0; i < entry.tensor.count(); ++i) {
        EXPECT_EQ(values(file, entry.tensor, i, i + 1)[0], wanted[static_cast<std::size_t>(i)]);
      }
    }
    expected.erase(entry.name);
  }
  EXPECT_EQ(expected, nlohmann::json::object());
}

INSTANTIATE_TEST_SUITE_P(Files, RealFile,
                         testing::Values("every_type.pt", "protocol4.pth", "before_1_6.bin",
                                         "training.pt", "training_before_1_6.pt"));

TEST(TorchFile, KeepsWhatIsNotATensor) {
  const TorchFile file(data("training.pt"));
  const Pickle& pickle = file.pickle();
  EXPECT_EQ(pickle.find_integer(pickle.root(), "iteration"), 100);
  EXPECT_EQ(pickle.find_number(pickle.root(), "checkpoint_version"), 3.0);
  const PickleId arguments = *pickle.find(pickle.root(), "args");
  EXPECT_EQ(pickle.full_name(arguments), "argparse.Namespace");
  EXPECT_EQ(pickle.find_integer(arguments, "num_layers"), 2);
  EXPECT_EQ(pickle.shown(*pickle.find(arguments, "params_dtype")), "'torch.bfloat16'");
  EXPECT_EQ(pickle.full_name(*pickle.find(arguments, "model_type")),
            "megatron.core.enums.ModelType");
  EXPECT_EQ(pickle.shown(*pickle.find(arguments, "vocab_file")), "None");
  const PickleId scaler = *pickle.find(pickle.root(), "loss_scaler");
  EXPECT_EQ(pickle.find_number(scaler, "cur_scale"), 65536);
  EXPECT_EQ(pickle[*pickle.find(pickle.root(), "bytes")].text, std::string("\0\xff\x80", 3));
}

TEST(TorchFile, IsToldByLooking) {
  EXPECT_TRUE(is_torch_file(data("every_type.pt")));
  EXPECT_TRUE(is_torch_file(data("before_1_6.bin")));
  EXPECT_FALSE(is_torch_file(data("make_torch_files.py")));
}

// A file of the test's own, under a known name.
class ForgedFile : public testing::Test {
 protected:
  ~ForgedFile() override { fs::remove(path_); }
  fs::path write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return path_;
  }
  std::string refusal(const std::string& bytes) const {
    try {
      TorchFile(write(bytes)).verify();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
      return error.what();
    }
    return "accepted";
  }
  fs::path path_ = fs::path(testing::TempDir()) / ("forged_" + std::to_string(::getpid()) + ".pt");
};

TEST_F(ForgedFile, SoundOnesAreRead) {
  const float numbers[] = {1, 2, 3, 4};
  const std::string storage(reinterpret_cast<const char*>(numbers), sizeof numbers);
  const TorchFile file(write(forged_torch(
      pickle_of(pickle_tensor({.offset = 1, .shape = {2, 1}, .strides = {2, 1}})), storage)));
  EXPECT_EQ(values(file, file.pickle().tensor(file.pickle().root()), 0, 2),
            (std::vector<double>{2, 4}));
}

TEST_F(ForgedFile, ADamagedStorageIsRefusedWhenItIsRead) {
  std::string file = forged_torch(pickle_of(pickle_tensor({})), std::string(16, 'x'));
  file[file.find("xxxx") + 3] = 'y';
  const TorchFile open(write(file));
  std::byte four[16];
  EXPECT_THROW(open.read(open.pickle().tensor(open.pickle().root()), 0, 4, four), Error);
  EXPECT_THAT(refusal(file), HasSubstr("checksum of its storage 'data/0'"));
}

TEST_F(ForgedFile, StoragesMustBeAsLongAsThePickleSays) {
  const std::string pickle = pickle_of(pickle_tensor({}));
  EXPECT_EQ(refusal(forged_torch(pickle, std::string(16, 'x'))), "accepted");
  EXPECT_THAT(refusal(forged_torch(pickle, std::string(15, 'x'))), HasSubstr("has 15 bytes"));
  EXPECT_THAT(refusal(forged_torch(pickle_of(pickle_tensor({.key = "7"})), std::string(16, 'x'))),
              HasSubstr("the storage 'data/7' is missing"));
}

TEST_F(ForgedFile, OtherFilesAreNamed) {
  EXPECT_THAT(refusal(forged_zip({{"word/document.xml", "text"}})), HasSubstr("not a torch.save"));
  EXPECT_THAT(refusal(forged_zip({{"a/data.pkl", pickle_of("N")}, {"a/code/model.py", ""}})),
              HasSubstr("TorchScript"));
  EXPECT_THAT(refusal(forged_zip({{"a/data.pkl", pickle_of("N")}, {"a/byteorder", "big"}})),
              HasSubstr("byte order \"big\""));
  EXPECT_THAT(refusal(pickle_of("N")), HasSubstr("a plain pickle, not a torch.save file"));
  EXPECT_THAT(refusal(std::string(257, 'a') + "ustar" + std::string(600, 0)), HasSubstr("tar"));
  EXPECT_THAT(refusal("anything else"), HasSubstr("not a torch.save file"));
  EXPECT_THAT(refusal(""), HasSubstr("not a torch.save file"));
  EXPECT_THAT(refusal(forged_torch(pickle_of("N") + "N.", "")), HasSubstr("bytes follow the end"));
}

TEST_F(ForgedFile, EveryCutOfARealFileIsRefused) {
  for (const std::string name : {"every_type.pt", "before_1_6.bin"}) {
    const std::string whole = read_file(data(name));
    for (std::size_t size = 0; size < whole.size(); size += 61) {
      EXPECT_NE(refusal(whole.substr(0, size)), "accepted") << name << " cut to " << size;
    }
    EXPECT_NE(refusal(whole + "x"), "accepted") << name;
  }
}

}  // namespace
}  // namespace trireme
