// `trireme convert --from hf`, then `trireme score`: the logits of the reference implementation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "interop/safetensors.h"

namespace trireme {
namespace {

class Convert : public testing::Test {
 protected:
  Convert() { fs::create_directories(folder_); }
  ~Convert() override { fs::remove_all(folder_); }

  static std::string run(std::vector<std::string> arguments) {
    CLI::App app;
    cli::add_convert(app);
    cli::add_score(app);
    std::reverse(arguments.begin(), arguments.end());
    testing::internal::CaptureStdout();
    try {
      app.parse(arguments);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  }
  static fs::path reference(const std::string& name) {
    return fs::path(TRIREME_TEST_DATA).parent_path().parent_path() / "interop/data/hf" / name;
  }

  fs::path folder_ =
      fs::path(testing::TempDir()) / ("trireme_convert_" + std::to_string(::getpid()));
};

TEST_F(Convert, GivesTheReferenceLogits) {
  for (const std::string name : {"gpt2", "llama", "llama_tied", "llama3_rope", "linear_rope"}) {
    const std::string run_folder = (folder_ / name).string();
    run({"convert", "--from", "hf", reference(name).string(), run_folder});
    const auto golden = nlohmann::json::parse(read_file(reference(name) / "golden.json"));
    const std::string ids = run_folder + "/ids", logits = run_folder + "/logits.safetensors";
    std::ofstream lines(ids);
    for (const auto& row : golden.at("ids")) lines << row.dump() << "\n";
    lines.close();
    run({"score", run_folder, "--ids", ids, "--output", logits});
    const SafetensorsFile file(logits);
    double largest = 0;
    for (std::size_t row = 0; row < golden.at("logits").size(); ++row) {
      const SafetensorsEntry& entry = file.at("logits." + std::to_string(row));
      const std::size_t tokens = golden["ids"][row].size();
      ASSERT_EQ(entry.shape, (std::vector{static_cast<std::int64_t>(tokens), std::int64_t{61}}));
      std::vector<float> values(tokens * 61);
      std::memcpy(values.data(), file.bytes(entry).data(), entry.bytes());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = golden["logits"][row][i / 61][i % 61];
        largest = std::max(largest, std::abs(values[i] - expected));
      }
    }
    EXPECT_LT(largest, 1e-4) << name;
  }
}

TEST_F(Convert, ReportsAsJson) {
  const std::string run_folder = (folder_ / "run").string(), out = (folder_ / "out").string();
  run({"convert", "--from", "hf", reference("llama").string(), run_folder});
  const auto json =
      nlohmann::json::parse(run({"convert", "--to", "hf", run_folder, out, "--json"}));
  EXPECT_EQ(json.at("model"), "LlamaForCausalLM");
  EXPECT_EQ(json.at("tensors"), 21);
  EXPECT_TRUE(fs::exists(folder_ / "out/generation_config.json"));
}

TEST_F(Convert, NeedsADirection) {
  EXPECT_THAT(
      [&] {
        run({"convert", reference("gpt2").string(), (folder_ / "run").string()});
      },
      testing::ThrowsMessage<Error>(testing::HasSubstr("--from hf")));
}

}  // namespace
}  // namespace trireme
