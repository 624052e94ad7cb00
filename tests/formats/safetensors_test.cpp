// Tests of safetensors: written files are read back; every rule of the format has a file that
// violates it; a file written by the reference implementation is read.
#include "tensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "tensors/safetensors_writer.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file + header + std::string(data_bytes, 'x');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "test.safetensors");
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
  try {
    parse(file_of(header, data_bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("test.safetensors"));
    return error.what();
  }
  return "accepted";
}

std::string entry(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

class SafetensorsFolder : public testing::Test {
 protected:
  fs::path path_ = fs::path(testing::TempDir()) /
                   (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
                    "_" + std::to_string(::getpid()) + ".safetensors");
  ~SafetensorsFolder() override { fs::remove(path_); }
};

TEST_F(SafetensorsFolder, WriterAndReaderAgree) {
  SafetensorsWriter writer(path_,
                           {{"bytes", DType::u8, {3}},
                            {"scalar", DType::f64, {}},
                            {"matrix", DType::bf16, {2, 3}},
                            {"empty", DType::f32, {0, 7}}},
                           {{"format", "pt"}});
  const double scalar = 0.25;
  const std::uint16_t matrix[6] = {1, 2, 3, 4, 5, 6};
  writer.write(2, 6, matrix + 3, 6);  // in pieces, and out of order
  writer.write(0, 0, "abc", 3);
  writer.write(1, 0, &scalar, 8);
  writer.write(2, 0, matrix, 6);
  writer.finish();

  const SafetensorsFile file(path_);
  EXPECT_EQ(file.size(), writer.file_bytes());
  EXPECT_EQ(file.header().data_begin % 8, 0u);
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 4u);
  const SafetensorsEntry& read = file.at("matrix");
  EXPECT_EQ(read.type, "BF16");
  EXPECT_EQ(read.dtype, DType::bf16);
  EXPECT_THAT(read.shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(file.bytes(read).data(), matrix, 12), 0);
  EXPECT_EQ(file.at("scalar").shape.size(), 0u);
  EXPECT_EQ(file.at("empty").bytes(), 0u);
  for (const SafetensorsEntry& tensor : file.tensors()) {
    EXPECT_EQ(tensor.begin % size_of(*tensor.dtype), 0u) << tensor.name << " is not aligned";
  }
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(file.header_bytes().data()) + 8, 16),
            R"({"__metadata__":)");
}

TEST_F(SafetensorsFolder, UnfinishedFileIsNoticed) {
  SafetensorsWriter writer(path_, {{"a", DType::f32, {2}}});
  writer.write(0, 0, "abcd", 4);
  EXPECT_THROW(writer.finish(), Error);
}

TEST_F(SafetensorsFolder, MissingTensorNamesFileAndTensor) {
  SafetensorsWriter(path_, {}).finish();
  const SafetensorsFile file(path_);
  EXPECT_THAT([&] { file.at("head.weight"); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(HasSubstr("head.weight"), HasSubstr(path_.string()))));
}

// The file was written by the reference implementation (see data/make_reference.py).
TEST(Safetensors, ReadsTheReferenceImplementation) {
  const SafetensorsFile file(fs::path(TRIREME_TEST_DATA) / "reference.safetensors");
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_EQ(file.tensors().size(), 12u);
  EXPECT_EQ(file.at("fp8").type, "F8_E4M3");
  EXPECT_FALSE(file.at("fp8").dtype.has_value());
  EXPECT_EQ(file.at("flags").type, "BOOL");
  EXPECT_THAT(file.at("five dimensions").shape, ElementsAre(1, 2, 1, 3, 1));
  float values[6];
  ASSERT_EQ(file.at("f32").bytes(), sizeof values);
  std::memcpy(values, file.bytes(file.at("f32")).data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(0, 0.5f, 1, 1.5f, 2, 2.5f));
}

TEST(SafetensorsRules, AcceptsWhatIsAllowed) {
  EXPECT_EQ(refusal("{}", 0), "accepted");
  EXPECT_EQ(refusal("{}      ", 0), "accepted");
  EXPECT_EQ(refusal("{\"a\":" + entry("F4", "[4]", "[0,2]") + "}", 2), "accepted");
  // The reference implementation accepts these: null metadata, and unknown fields.
  EXPECT_EQ(refusal("{\"__metadata__\":null,\"a\":" + entry("U8", "[1]", "[0,1]") + "}", 1),
            "accepted");
  for (const std::string more :
       {"1", "-1.5", "null", "true", "\"x\"", "[]", "{}", "[1,[{\"dtype\":\"F99\"}],null]",
        "{\"dtype\":{\"shape\":[[-1]]},\"a\":[]}"}) {
    for (const std::string& at : {"\"note\":" + more + ",", std::string()}) {
      const std::string end = at.empty() ? ",\"note\":" + more : "";
      EXPECT_EQ(refusal("{\"a\":{" + at + R"("dtype":"U8","shape":[1],"data_offsets":[0,1])" + end +
                            "},\"b\":" + entry("U8", "[1]", "[1,2]") + "}",
                        2),
                "accepted")
          << more;
    }
  }
  // Tensors out of byte order, and an empty tensor with a large shape.
  EXPECT_EQ(
      refusal("{\"b\":" + entry("U8", "[2]", "[4,6]") + ",\"a\":" + entry("F32", "[]", "[0,4]") +
                  ",\"c\":" + entry("F32", "[0,1000000]", "[4,4]") + "}",
              6),
      "accepted");
}

TEST(SafetensorsRules, RefusesBadHeaders) {
  EXPECT_THAT([] { parse("short"); }, testing::ThrowsMessage<Error>(HasSubstr("only 5 bytes")));
  std::string file = file_of("{}", 0);
  file[7] = 1;
  EXPECT_THAT([&] { parse(file); }, testing::ThrowsMessage<Error>(HasSubstr("more than the")));
  file[7] = 0;
  file[1] = 1;
  EXPECT_THAT([&] { parse(file); }, testing::ThrowsMessage<Error>(HasSubstr("truncated")));
  EXPECT_THAT(refusal(" {}", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal("{} x", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\"a\":", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\"\xff\":1}", 0), HasSubstr("not JSON"));
}

TEST(SafetensorsRules, RefusesBadEntries) {
  const std::string good = entry("U8", "[1]", "[0,1]");
  EXPECT_THAT(refusal("{\"a\":" + good + ",\"a\":" + good + "}", 1),
              HasSubstr("'a' appears twice"));
  EXPECT_THAT(refusal("{\"a\":1}", 1), HasSubstr("'a' contains an unexpected number"));
  EXPECT_THAT(refusal("{\"a\":[]}", 1), HasSubstr("'a' contains an unexpected list"));
  EXPECT_THAT(refusal("{\"a\":{}}", 1), HasSubstr("'a' lacks"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","dtype":"U8"}})", 1), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","stride":[1]}})", 1), HasSubstr("'a' lacks"));
  EXPECT_THAT(refusal(R"({"__metadata__":{},"__metadata__":{}})", 0), HasSubstr("appears twice"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":null}})", 0), HasSubstr("a null"));
  EXPECT_THAT(refusal(R"({"a":null})", 0), HasSubstr("a null"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":{}}})", 1), HasSubstr("unexpected object"));
  EXPECT_THAT(refusal("{\"a\":" + entry("F99", "[1]", "[0,1]") + "}", 1), HasSubstr("'F99'"));
  EXPECT_THAT(refusal("{\"a\":" + entry("U8", "[-1]", "[0,1]") + "}", 1), HasSubstr("negative"));
  EXPECT_THAT(refusal("{\"a\":" + entry("U8", "[1.0]", "[0,1]") + "}", 1), HasSubstr("integer"));
  EXPECT_THAT(refusal("{\"a\":" + entry("U8", "[[1]]", "[0,1]") + "}", 1),
              HasSubstr("unexpected list"));
  EXPECT_THAT(refusal("{\"a\":" + entry("U8", "[1]", "[0]") + "}", 1), HasSubstr("not a range"));
  EXPECT_THAT(refusal("{\"a\":" + entry("U8", "[1]", "[1,0]") + "}", 1), HasSubstr("not a range"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":1}})", 0), HasSubstr("unexpected number"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":"","a":""}})", 0), HasSubstr("duplicate key"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":{}}})", 0), HasSubstr("unexpected object"));
}

TEST(SafetensorsRules, RefusesBadLayouts) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{\"a\":" + entry("U8", "[4]", first) + ",\"b\":" + entry("U8", "[4]", second) + "}";
  };
  EXPECT_THAT(refusal(two("[0,4]", "[5,9]"), 9), HasSubstr("'b' begins at byte 5"));
  EXPECT_THAT(refusal(two("[0,4]", "[3,7]"), 7), HasSubstr("overlap"));
  EXPECT_THAT(refusal(two("[0,4]", "[0,4]"), 4), HasSubstr("overlap"));
  EXPECT_THAT(refusal(two("[1,5]", "[5,9]"), 9), HasSubstr("hole"));
  EXPECT_THAT(refusal(two("[0,4]", "[4,8]"), 7), HasSubstr("truncated"));
  EXPECT_THAT(refusal(two("[0,4]", "[4,8]"), 9), HasSubstr("it has 1 byte after"));
  EXPECT_THAT(refusal("{}", 1), HasSubstr("it has 1 byte after"));
  EXPECT_THAT(refusal("{\"a\":" + entry("F32", "[2]", "[0,4]") + "}", 4),
              HasSubstr("does not match its shape"));
  EXPECT_THAT(refusal("{\"a\":" + entry("F4", "[3]", "[0,2]") + "}", 2),
              HasSubstr("does not match its shape"));
  // 2^32 x 2^32 bytes wrap around to zero in 64 bits.
  EXPECT_THAT(refusal("{\"a\":" + entry("U8", "[4294967296,4294967296]", "[0,0]") + "}", 0),
              HasSubstr("does not match its shape"));
}

}  // namespace
}  // namespace trireme
