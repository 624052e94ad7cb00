// Construction of the trie.
#include "tokenizer/patterns/prefix_set.h"

#include "base/error.h"

namespace trireme {

void PrefixSet::add(std::string_view text, std::int32_t value) {
  TRIREME_CHECK(value >= 0 && values_.size() + text.size() <= kMostBytes + 1);
  if (text.empty()) return;
  std::uint32_t& first = first_[static_cast<unsigned char>(text.front())];
  if (first == 0) {
    first = static_cast<std::uint32_t>(values_.size());
    values_.push_back(-1);
  }
  if (text.size() > 1) pairs_[pair(text[0], text[1])] = true;
  std::uint32_t node = first;
  for (const char byte : text.substr(1)) {
    const std::uint32_t next = child(node, byte);
    node = next != 0 ? next : add_child(node, byte);
  }
  if (values_[node] < 0) values_[node] = value;
}

std::uint32_t PrefixSet::add_child(std::uint32_t node, char byte) {
  const auto made = static_cast<std::uint32_t>(values_.size());
  values_.push_back(-1);
  // There are fewer edges than nodes.
  if (2 * values_.size() > edges_.size()) {
    std::vector<Edge> old(2 * edges_.size());
    old.swap(edges_);
    for (const Edge& edge : old) {
      if (edge.child != 0) insert(edge);
    }
  }
  insert({key(node, byte), made});
  return made;
}

void PrefixSet::insert(Edge edge) {
  std::size_t i = home(edge.key);
  while (edges_[i].child != 0) i = (i + 1) & (edges_.size() - 1);
  edges_[i] = edge;
}

}  // namespace trireme
