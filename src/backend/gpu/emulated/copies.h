// copies.h on the emulated GPU: data is copied only in the wait, so that a missing
// wait shows up in the result.
#pragma once

#include <vector>

namespace trireme::gpu {

inline constexpr int copy_stages = 3;

class Copies {
 public:
  template <class T>
  void copy_pack(T* to, const T* from, bool valid) {
    begun_.push_back({to, valid ? from : nullptr, 16});
  }
  void copy_word(float* to, const float* from, bool valid) {
    begun_.push_back({to, valid ? from : nullptr, 4});
  }
  void commit() { groups_.push_back(begun_.size()); }
  template <int groups>
  void wait_for_all_but() {
    while (groups_.size() > static_cast<std::size_t>(groups)) {
      for (std::size_t i = 0; i < groups_.front(); ++i) copy(begun_[i]);
      const auto count = static_cast<std::ptrdiff_t>(groups_.front());
      begun_.erase(begun_.begin(), begun_.begin() + count);
      groups_.erase(groups_.begin());
      for (std::size_t& end : groups_) end -= static_cast<std::size_t>(count);
    }
  }

 private:
  using Bytes = Pack<std::uint64_t, 2>;
  struct Begun {
    void* to;
    const void* from;  // null: zeros
    int bytes;         // 16 or 4
  };

  static void copy(const Begun& c) {
    if (c.bytes == 4)
      *static_cast<float*>(c.to) = c.from ? *static_cast<const float*>(c.from) : 0.0f;
    else if (c.from)
      __builtin_memcpy(__builtin_assume_aligned(c.to, 16), __builtin_assume_aligned(c.from, 16),
                       16);
    else
      __builtin_memset(__builtin_assume_aligned(c.to, 16), 0, 16);
  }

  std::vector<Begun> begun_;
  std::vector<std::size_t> groups_;  // end of each group in the started copies
};

}  // namespace trireme::gpu
