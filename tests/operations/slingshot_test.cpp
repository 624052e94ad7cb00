#include "operations/slingshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "operations/site.h"
#include "scratch_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class Slingshot : public testing::Test {
 protected:
  Slingshot() {
    for (const SiteVariable& variable : slingshot_variables())
      if (variable.above_nodes == 0) variables_[std::string(variable.name)] = variable.value;
  }
  SlingshotReport check() const {
    return check_slingshot(
        interfaces_,
        [this](const char* name) {
          const auto found = variables_.find(name);
          return found == variables_.end() ? nullptr : found->second.c_str();
        },
        [this](const std::string& file) { return libraries_.contains(file); });
  }
  void add_card(const char* name) const { fs::create_directory(interfaces_ / name); }

  ScratchFolder interfaces_;
  std::map<std::string, std::string> variables_;
  std::set<std::string> libraries_{"librccl-net.so"};
};

TEST_F(Slingshot, IsKnownByItsCards) {
  variables_.clear();
  libraries_.clear();
  add_card("eth0");
  EXPECT_THAT(check().cards, IsEmpty());
  EXPECT_THAT(check().missing, IsEmpty());
  EXPECT_THAT(check().plugins, IsEmpty());
  add_card("hsn1");
  add_card("hsn0");
  EXPECT_THAT(check().cards, ElementsAre("hsn0", "hsn1"));
}

TEST_F(Slingshot, TellsMissingVariablesFromThoseWithAnotherValue) {
  add_card("hsn0");
  EXPECT_THAT(check().missing, IsEmpty());
  EXPECT_THAT(check().other, IsEmpty());
  variables_.erase("FI_MR_CACHE_MONITOR");
  variables_["NCCL_CROSS_NIC"] = "0";
  EXPECT_THAT(check().missing, ElementsAre("FI_MR_CACHE_MONITOR=userfaultfd"));
  EXPECT_THAT(check().other, ElementsAre("NCCL_CROSS_NIC=0 (ours: 1)"));
}

TEST_F(Slingshot, FindsThePluginUnderTheNamesThatRcclTries) {
  add_card("hsn0");
  EXPECT_THAT(check().plugins, IsEmpty());
  libraries_ = {"libnccl-net.so"};
  EXPECT_THAT(check().plugins, IsEmpty());
  libraries_.clear();
  EXPECT_THAT(check().plugins, ElementsAre("librccl-net.so", "libnccl-net.so"));
  variables_["NCCL_NET_PLUGIN"] = "ofi";
  EXPECT_THAT(check().plugins, ElementsAre("librccl-net-ofi.so", "libnccl-net-ofi.so"));
  libraries_ = {"/opt/aws-ofi-rccl/librccl-net.so"};
  variables_["NCCL_NET_PLUGIN"] = "/opt/aws-ofi-rccl/librccl-net.so";
  EXPECT_THAT(check().plugins, IsEmpty());
}

}  // namespace
}  // namespace trireme
