// Runs kernels that a test writes in PTX on the interpreter.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/memory.h"
#include "backend/gpu/ptx/run.h"

namespace trireme::ptx {

// A test's device memory.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : bytes_(bytes), memory_(DeviceMemory::instance().allocate(bytes)) {}
  ~Buffer() { DeviceMemory::instance().release(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(DeviceMemory::instance().range_at(address(), bytes_));
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

struct Body {
  std::string text;         // the statements
  std::string shared = "";  // declarations of shared memory
  int threads = 32;
  std::uint64_t order = 0;
};

// Adds the test kernels' registers. %rd1 has the address of the buffer, %r1 the thread index.
inline std::string kernel_text(const Body& body) {
  return ".version 8.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry test(.param .u64 buffer)\n.maxntid 128, 1, 1\n{\n" +
         body.shared +
         ".reg .pred %p<9>; .reg .b16 %rs<20>; .reg .b32 %r<40>; .reg .f32 %f<40>;\n"
         ".reg .b64 %rd<20>; .reg .f64 %fd<20>;\n"
         "ld.param.u64 %rd1, [buffer];\nmov.u32 %r1, %tid.x;\n" +
         body.text + "\nret;\n}\n";
}

// Runs one block.
inline Count run(const Body& body, const Buffer& buffer) {
  ModuleText module = parse(kernel_text(body));
  parse_body(module.kernels[0]);
  const Program program = decode(module, module.kernels[0], {});
  Launch launch;
  launch.program = &program;
  launch.threads.x = static_cast<unsigned>(body.threads);
  launch.shared_bytes = program.shared_bytes;
  launch.order = body.order;
  launch.parameters.resize(8);
  const std::uint64_t address = buffer.address();
  std::memcpy(launch.parameters.data(), &address, sizeof address);
  return run(launch);
}

// Returns the value of %r0 in each thread.
inline std::vector<std::uint32_t> results(Body body) {
  const auto count = static_cast<std::size_t>(body.threads);
  const Buffer buffer(4 * count);
  body.text += "\nmad.wide.u32 %rd19, %r1, 4, %rd1;\nst.global.u32 [%rd19], %r0;";
  run(body, buffer);
  const auto* const words = buffer.as<std::uint32_t>();
  return {words, words + count};
}
inline std::uint32_t result(const std::string& text) {
  return results({text})[0];
}
inline float float_result(const std::string& text) {
  return std::bit_cast<float>(result(text + "\nmov.b32 %r0, %f0;"));
}

// Returns the interpreter's error for an invalid program.
inline std::string refusal(const Body& body, const Buffer& buffer) {
  try {
    run(body, buffer);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}
inline std::string refusal(const Body& body) {
  return refusal(body, Buffer(256));
}

}  // namespace trireme::ptx
