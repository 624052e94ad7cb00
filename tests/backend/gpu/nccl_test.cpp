// Tests of our calls of NCCL, with a library that records them.
#include "backend/gpu/vendor/nccl.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/device.h"
#include "base/beside_program.h"

namespace trireme::gpu {
namespace {

// Next to this program, which may have been moved, or in its build location.
std::string file_of_fake() {
  return find_beside_program("libtrireme_fake_nccl.so", TRIREME_FAKE_NCCL_FOLDER).string();
}

FoundLibrary found(const std::string& file) {
  SearchPlaces places;
  places.environment = [](const char*) { return std::string(); };
  places.root = "/nowhere";
  return find_library({file}, places);
}

void* address(int number) {
  return reinterpret_cast<void*>(static_cast<std::size_t>(number));
}

int selections = 0;
const NcclDevice device{[](Queue&) { return address(5); }, [] { ++selections; }};

TEST(Nccl, IsCalledAsItsHeaderSays) {
  std::string problem;
  const CollectiveTable* const library = load_nccl(found(file_of_fake()), device, problem);
  ASSERT_TRUE(library) << problem;
  EXPECT_EQ(library->name(), "NCCL 2.28.9");

  CollectiveId id;
  EXPECT_EQ(library->make_id(&id), 0);
  void* group = nullptr;
  EXPECT_EQ(library->join(&group, 4, id, 3, nullptr), 0);
  EXPECT_EQ(selections, 1);  // a separate thread joins
  Queue& queue = cpu::queue();
  library->all_reduce(address(1), 10, DType::f32, false, group, queue);
  library->all_reduce(address(1), 11, DType::i64, true, group, queue);
  library->reduce_scatter(address(1), address(2), 12, DType::bf16, false, group, queue);
  library->all_gather(address(1), address(2), 13, DType::f16, group, queue);
  library->broadcast(address(1), 14, DType::f64, 2, group, queue);
  library->group_start();
  library->send(address(1), 15, DType::u8, 1, group, queue);
  library->receive(address(2), 16, DType::i32, 2, group, queue);
  library->group_end();
  EXPECT_EQ(library->async_error(group), 6);
  EXPECT_THAT(library->error_text(6), testing::HasSubstr("remote process exited"));
  library->destroy(group);
  library->abort(group);

  void* const handle = dlopen(file_of_fake().c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto calls = reinterpret_cast<const char* (*)()>(dlsym(handle, "fake_nccl_calls"));
  EXPECT_STREQ(calls(),
               "init 3 of 4, id 7 7\n"
               "all_reduce 1 1 x10 type 7 op 0 comm 99 stream 5\n"
               "all_reduce 1 1 x11 type 4 op 2 comm 99 stream 5\n"
               "reduce_scatter 1 2 x12 type 9 op 0 comm 99 stream 5\n"
               "all_gather 1 2 x13 type 6 comm 99 stream 5\n"
               "broadcast 1 1 x14 type 8 root 2 comm 99 stream 5\n"
               "{\n"
               "send 1 x15 type 1 peer 1 comm 99 stream 5\n"
               "recv 2 x16 type 2 peer 2 comm 99 stream 5\n"
               "}\n"
               "destroy 99\n"
               "abort 99\n");
}

TEST(Nccl, IsNotNeeded) {
  std::string problem;
  EXPECT_FALSE(load_nccl(found("libthere_is_no_such.so"), device, problem));
  EXPECT_THAT(problem, testing::HasSubstr("libthere_is_no_such.so"));
  EXPECT_FALSE(load_nccl(found("libm.so.6"), device, problem));
  EXPECT_EQ(problem, "it has no ncclGetVersion");
}

}  // namespace
}  // namespace trireme::gpu
