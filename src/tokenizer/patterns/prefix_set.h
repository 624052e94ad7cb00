// Texts of which the longest that a text begins with is found.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme {

// A trie whose edges are in one hash table.
class PrefixSet {
 public:
  // The most bytes that the texts can have together.
  static constexpr std::size_t kMostBytes = (std::size_t{1} << 24) - 2;

  struct Found {
    std::size_t length = 0;  // 0: none
    std::int32_t value = -1;
  };

  // `value` is not negative. An empty text is left out; one that is a member keeps its value.
  void add(std::string_view text, std::int32_t value);
  bool empty() const { return values_.size() == 1; }
  // Whether a member begins with `byte`.
  bool begins(char byte) const { return first_[static_cast<unsigned char>(byte)] != 0; }

  // The longest member that `text` begins with.
  Found longest_prefix(std::string_view text) const {
    Found longest;
    if (text.empty()) return longest;
    std::uint32_t node = first_[static_cast<unsigned char>(text[0])];
    if (node == 0) return longest;
    if (values_[node] >= 0) longest = {1, values_[node]};
    if (text.size() == 1 || !pairs_[pair(text[0], text[1])]) return longest;
    for (std::size_t i = 1; i < text.size() && (node = child(node, text[i])) != 0; ++i) {
      if (values_[node] >= 0) longest = {i + 1, values_[node]};
    }
    return longest;
  }

  // Calls use(length, value) for each member that `text` begins with, the shortest first.
  template <class Use>
  void each_prefix(std::string_view text, const Use& use) const {
    if (text.empty()) return;
    std::uint32_t node = first_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; node != 0; ++length) {
      if (values_[node] >= 0) use(length, values_[node]);
      if (length == text.size()) return;
      node = child(node, text[length]);
    }
  }

 private:
  // An edge: the node that it leaves with its byte, and the node that it leads to. No edge leads to
  // the root, which is 0.
  struct Edge {
    std::uint32_t key = 0;
    std::uint32_t child = 0;
  };
  static std::uint32_t key(std::uint32_t node, char byte) {
    return node << 8 | static_cast<unsigned char>(byte);
  }
  static std::size_t pair(char first, char second) {
    return std::size_t{static_cast<unsigned char>(first)} << 8 | static_cast<unsigned char>(second);
  }
  std::size_t home(std::uint32_t key) const {
    return (key * std::uint64_t{0x9E3779B97F4A7C15} >> 32) & (edges_.size() - 1);
  }
  std::uint32_t child(std::uint32_t node, char byte) const {
    const std::uint32_t wanted = key(node, byte);
    for (std::size_t i = home(wanted);; i = (i + 1) & (edges_.size() - 1)) {
      if (edges_[i].child == 0 || edges_[i].key == wanted) return edges_[i].child;
    }
  }
  std::uint32_t add_child(std::uint32_t node, char byte);
  void insert(Edge edge);

  std::array<std::uint32_t, 256> first_{};           // the root's children
  std::bitset<65536> pairs_;                         // the first two bytes of longer members
  std::vector<Edge> edges_ = std::vector<Edge>(16);  // a power of two, at most half full
  std::vector<std::int32_t> values_{-1};             // by node; -1: no member ends here
};

}  // namespace trireme
