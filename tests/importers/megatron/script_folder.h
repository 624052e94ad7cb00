// A folder in which tests write launch scripts and run them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "importers/megatron/import.h"
#include "importers/script/launch.h"

namespace trireme::megatron {

// A folder of its own, which is the current one while the test lasts.
class ScriptFolder : public testing::Test {
 protected:
  ScriptFolder() : before_(fs::current_path()) {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              (std::string("trireme_") + info->name() + std::to_string(::getpid()));
    fs::create_directories(folder_);
    folder_ = fs::canonical(folder_);
    fs::current_path(folder_);
  }
  ~ScriptFolder() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  script::ScriptRun run(const std::string& text, const script::ScriptOptions& options = {}) const {
    write("run.sh", text);
    return script::run_script(folder_ / "run.sh", options);
  }
  // The arguments of the one training that the script starts.
  std::vector<std::string> launched(const std::string& text,
                                    const script::ScriptOptions& options = {}) const {
    const script::ScriptRun result = run(text, options);
    const std::vector<script::Launch> launches = script::find_launches(result);
    EXPECT_EQ(launches.size(), 1u) << text << "\n" << result.output;
    return launches.empty() ? std::vector<std::string>{} : launches[0].arguments;
  }
  Import import(const std::string& text, ImportOptions options = {}) const {
    write("run.sh", text);
    options.file = "run.toml";
    return import_script("run.sh", options);
  }
  std::string refusal(const std::string& text, const ImportOptions& options = {}) const {
    try {
      import(text, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    ADD_FAILURE() << "accepted: " << text;
    return "";
  }

  fs::path before_, folder_;
};

inline constexpr const char* script_flags =
    " --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 "
    "--max-position-embeddings 8 --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 "
    "--train-iters 5 --data-path d --vocab-file v --merge-file m ";

}  // namespace trireme::megatron
