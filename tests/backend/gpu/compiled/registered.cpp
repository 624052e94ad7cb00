// Records which kernels the host code registers: linked to a plug-in's objects in place of the
// vendor's runtime, it writes down what they register when a program starts. Each of our functions
// has a twin for the other vendor.
//
//   registered FOLDER
//
// FOLDER/N.image contains a file's code objects in the vendor's bundle; FOLDER/N.kernels contains
// the names.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

struct Image {
  std::vector<char> bytes;
  std::vector<std::string> kernels;
};

// A function-local static, because registration happens before main().
std::vector<Image>& images() {
  static std::vector<Image> all;
  return all;
}

template <class T>
T read_at(const char* p, std::size_t offset) {
  T value;
  std::memcpy(&value, p + offset, sizeof value);
  return value;
}

// Size of an NVIDIA fat binary: a header of 16 bytes gives the number of bytes that follow.
std::size_t size_of_cuda(const char* image) {
  return read_at<std::uint16_t>(image, 6) + read_at<std::uint64_t>(image, 8);
}

// Size of a clang bundle: 24 bytes of magic, the number of entries, and for each entry its offset,
// its size and the length of the target's name, which follows.
std::size_t size_of_hip(const char* image) {
  std::size_t end = 0, at = 32;
  for (auto left = read_at<std::uint64_t>(image, 24); left > 0; --left) {
    const auto last = read_at<std::uint64_t>(image, at) + read_at<std::uint64_t>(image, at + 8);
    end = last > end ? last : end;
    at += 24 + read_at<std::uint64_t>(image, at + 16);
  }
  return end;
}

// wrapper: two words, then the address of the image, for both vendors.
void** begin(const void* wrapper, std::size_t (*size)(const char*)) {
  const auto* const image = read_at<const char*>(static_cast<const char*>(wrapper), 8);
  images().push_back({{image, image + size(image)}, {}});
  return reinterpret_cast<void**>(images().size());  // an opaque handle, never dereferenced
}
void add(void** handle, const char* name) {
  images().at(reinterpret_cast<std::size_t>(handle) - 1).kernels.emplace_back(name);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the vendors define these names.
extern "C" {
void** __cudaRegisterFatBinary(void* wrapper) {
  return begin(wrapper, size_of_cuda);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 0;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void** handle, const char*, char*, const char* name, int, void*, void*,
                            void*, void*, int*) {
  add(handle, name);
}

void** __hipRegisterFatBinary(const void* wrapper) {
  return begin(wrapper, size_of_hip);
}
void __hipUnregisterFatBinary(void**) {}
void __hipRegisterVar(void**, void*, char*, char*, int, std::size_t, int, int) {}
void __hipRegisterFunction(void** handle, const void*, char*, const char* name, unsigned, void*,
                           void*, void*, void*, int*) {
  add(handle, name);
}
}
// NOLINTEND(bugprone-reserved-identifier)

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  for (std::size_t i = 0; i < images().size(); ++i) {
    const std::string path = std::string(argv[1]) + "/" + std::to_string(i);
    const Image& image = images()[i];
    std::ofstream(path + ".image", std::ios::binary)
        .write(image.bytes.data(), static_cast<std::streamsize>(image.bytes.size()));
    std::ofstream names(path + ".kernels");
    for (const std::string& name : image.kernels) names << name << '\n';
  }
  return images().empty() ? 1 : 0;
}
