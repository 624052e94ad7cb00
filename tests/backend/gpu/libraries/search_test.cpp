// Tests of where vendor libraries are found, and of the messages if they are not.
#include "backend/gpu/libraries/search.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "backend/gpu/environment.h"

namespace trireme::gpu {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// A machine in a folder: loadable files are copies of a system library.
class Search : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_);
    places_.root = root_;
    places_.environment = [this](const char* name) { return variables_[name]; };
  }
  ~Search() override { fs::remove_all(root_); }

  void install(const fs::path& file) const {
    fs::create_directories((root_ / file).parent_path());
    void* const system = dlopen("libm.so.6", RTLD_NOW);
    Dl_info info;
    ASSERT_TRUE(system && dladdr(dlsym(system, "cos"), &info));
    fs::copy_file(info.dli_fname, root_ / file, fs::copy_options::overwrite_existing);
  }
  void make_folder(const fs::path& folder) const { fs::create_directories(root_ / folder); }
  std::string in_root(const char* path) const { return (root_ / path).string(); }

  const fs::path root_ =
      fs::temp_directory_path() / ("trireme_search_" + std::to_string(::getpid()));
  std::map<std::string, std::string> variables_;
  SearchPlaces places_;
};

TEST_F(Search, LooksWhereUsersHaveLibraries) {
  for (const char* folder :
       {"mine", "home/lib64", "build/lib64", "usr/local/cuda/lib64",
        "usr/local/cuda-12/targets/x86_64-linux/lib", "usr/local/cuda-13.1/lib64", "opt/rocm/lib",
        "opt/rocm-6.2.4/lib", "driver", "venv/bin",
        "venv/lib/python3.11/site-packages/nvidia/cu13/lib",
        "venv/lib/python3.11/site-packages/nvidia/nccl/lib",
        "torch/lib/python3.12/site-packages/nvidia/cublas/lib", "torch/bin"})
    make_folder(folder);
  fs::create_symlink("/usr/bin/env", root_ / "torch/bin/python3");
  variables_ = {{"TRIREME_GPU_LIBRARY_PATH", in_root("mine") + ":" + in_root("not there")},
                {"CUDA_HOME", in_root("home")},
                {"VIRTUAL_ENV", in_root("venv")},
                {"PATH", in_root("venv/bin") + ":" + in_root("torch/bin")}};
  places_.built_with = in_root("build/lib64");
  places_.loaded = {in_root("driver")};
  EXPECT_THAT(library_folders(places_),
              ElementsAre(in_root("mine"), in_root("home/lib64"), in_root("build/lib64"),
                          in_root("usr/local/cuda/lib64"), in_root("usr/local/cuda-13.1/lib64"),
                          in_root("usr/local/cuda-12/targets/x86_64-linux/lib"),
                          in_root("opt/rocm/lib"), in_root("opt/rocm-6.2.4/lib"), in_root("driver"),
                          in_root("venv/lib/python3.11/site-packages/nvidia/nccl/lib"),
                          in_root("venv/lib/python3.11/site-packages/nvidia/cu13/lib"),
                          in_root("torch/lib/python3.12/site-packages/nvidia/cublas/lib")));
}

TEST_F(Search, LoadsWhatItFindsAndSaysWhere) {
  install("usr/local/cuda/lib64/libpretended.so.13");
  const FoundLibrary found = find_library({"libpretended.so.13"}, places_);
  ASSERT_TRUE(found.handle) << found.problem;
  EXPECT_EQ(found.path, in_root("usr/local/cuda/lib64/libpretended.so.13"));
  EXPECT_TRUE(dlsym(found.handle, "cos"));
}

TEST_F(Search, TakesTheFolderThatTheUserNamesFirst) {
  install("usr/local/cuda/lib64/libpreferred.so.13");
  install("mine/libpreferred.so.13");
  variables_["TRIREME_GPU_LIBRARY_PATH"] = in_root("mine");
  EXPECT_EQ(find_library({"libpreferred.so.13"}, places_).path, in_root("mine/libpreferred.so.13"));
  // Takes precedence over the system's own, too.
  install("mine/libm.so.6");
  EXPECT_EQ(find_library({"libm.so.6"}, places_).path, in_root("mine/libm.so.6"));
}

TEST_F(Search, TakesTheSecondNameWhereTheFirstIsNowhere) {
  install("opt/rocm/lib/libnames.so");
  EXPECT_EQ(find_library({"libnames.so.1", "libnames.so"}, places_).path,
            in_root("opt/rocm/lib/libnames.so"));
}

TEST_F(Search, DoesNotEndAtADamagedFile) {
  make_folder("usr/local/cuda/lib64");
  std::ofstream(root_ / "usr/local/cuda/lib64/libtorn.so.2") << "torn";
  EXPECT_THAT(find_library({"libtorn.so.2"}, places_).problem,
              HasSubstr(in_root("usr/local/cuda/lib64/libtorn.so.2")));
  install("usr/local/cuda-13/lib64/libtorn.so.2");
  EXPECT_EQ(find_library({"libtorn.so.2"}, places_).path,
            in_root("usr/local/cuda-13/lib64/libtorn.so.2"));
}

TEST_F(Search, SaysWhatItMisses) {
  const FoundLibrary none = find_library({"libabsent.so.13"}, places_);
  EXPECT_FALSE(none.handle);
  EXPECT_EQ(
      none.problem,
      "libabsent.so.13 is neither in the system's search path nor in a folder of CUDA, ROCm or "
      "Python; set TRIREME_GPU_LIBRARY_PATH to the folder that contains it");
  install("usr/local/cuda/lib64/libabsent.so.12");
  EXPECT_EQ(find_library({"libabsent.so.13"}, places_).problem,
            "libabsent.so.13 does not exist, but " +
                in_root("usr/local/cuda/lib64/libabsent.so.12") +
                " does: this build requires the former");
}

TEST(Environment, KeepsWhatAUserHasSet) {
  constexpr DriverSetting settings[] = {{"TRIREME_TEST_SET", "ours"},
                                        {"TRIREME_TEST_UNSET", "ours"}};
  ::setenv("TRIREME_TEST_SET", "theirs", 1);
  set_environment(settings);
  EXPECT_STREQ(std::getenv("TRIREME_TEST_SET"), "theirs");
  EXPECT_STREQ(std::getenv("TRIREME_TEST_UNSET"), "ours");
}

TEST(Environment, HasWhatKeepsCollectivesFromWaitingForKernels) {
  const auto value = [](bool for_amd, const std::string& name) -> std::string {
    for (const DriverSetting& setting : driver_settings(for_amd))
      if (setting.name == name) return setting.value;
    return "";
  };
  EXPECT_EQ(value(false, "CUDA_MODULE_LOADING"), "EAGER");
  EXPECT_EQ(value(true, "GPU_MAX_HW_QUEUES"), "8");
  for (const bool amd : {false, true}) EXPECT_EQ(value(amd, "NCCL_NVLS_ENABLE"), "0");
}

}  // namespace
}  // namespace trireme::gpu
