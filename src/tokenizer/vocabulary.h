// A vocabulary: tokens as byte strings, by id and by content.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class Vocabulary {
 public:
  // Sets the bytes of `id`, which is not negative and has none yet. Ids may come in any order and
  // leave holes. Of tokens with equal bytes find() returns the first that was added.
  void add(std::int32_t id, std::string_view bytes);

  // Sets the bytes of `id` without letting find() return it.
  void add_hidden(std::int32_t id, std::string_view bytes);

  // The id of a token or -1.
  std::int32_t find(std::string_view bytes) const;

  bool has(std::int32_t id) const {
    return id >= 0 && id < size() && spans_[static_cast<std::size_t>(id)].used;
  }
  std::string_view bytes(std::int32_t id) const {
    const Span& span = spans_[static_cast<std::size_t>(id)];
    return {blob_.data() + span.begin, span.length};
  }

  // One more than the largest id.
  std::int32_t size() const { return static_cast<std::int32_t>(spans_.size()); }
  // Number of ids that have a token.
  std::int32_t count() const { return count_; }
  // The smallest id without a token, or -1.
  std::int32_t first_hole() const;
  // Length of the longest token in bytes.
  std::size_t longest() const { return longest_; }

 private:
  struct Span {
    std::uint64_t begin = 0;
    std::uint32_t length = 0;
    bool used = false;
    bool hidden = false;
  };
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash
    std::int32_t id = -1;   // -1: empty
  };
  void set(std::int32_t id, std::string_view bytes, bool hidden);
  void insert(std::int32_t id, std::string_view bytes);
  void grow();

  std::string blob_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  std::int32_t count_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace trireme
