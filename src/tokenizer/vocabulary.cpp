// The vocabulary's hash table.
#include "tokenizer/vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace trireme {

void Vocabulary::set(std::int32_t id, std::string_view bytes, bool hidden) {
  TRIREME_CHECK(id >= 0 && !has(id));
  if (id >= size()) spans_.resize(static_cast<std::size_t>(id) + 1);
  spans_[static_cast<std::size_t>(id)] = {blob_.size(), static_cast<std::uint32_t>(bytes.size()),
                                          true, hidden};
  blob_ += bytes;
  longest_ = std::max(longest_, bytes.size());
  ++count_;
}

void Vocabulary::add(std::int32_t id, std::string_view bytes) {
  set(id, bytes, false);
  if (2 * static_cast<std::size_t>(count_) > slots_.size()) {
    grow();
  } else {
    insert(id, bytes);
  }
}

void Vocabulary::add_hidden(std::int32_t id, std::string_view bytes) {
  set(id, bytes, true);
}

void Vocabulary::insert(std::int32_t id, std::string_view bytes) {
  const std::uint64_t hash = hash64(bytes);
  const std::uint32_t tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t i = hash & (slots_.size() - 1);
  for (; slots_[i].id >= 0; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].tag == tag && this->bytes(slots_[i].id) == bytes) return;
  }
  slots_[i] = {tag, id};
}

void Vocabulary::grow() {
  std::vector<Slot> old(std::max<std::size_t>(16, 2 * slots_.size()));
  old.swap(slots_);
  // Tokens that have equal bytes keep their order only if the old table leads the way.
  for (const Slot& slot : old) {
    if (slot.id >= 0) insert(slot.id, bytes(slot.id));
  }
  for (std::int32_t id = 0; id < size(); ++id) {
    if (has(id) && !spans_[static_cast<std::size_t>(id)].hidden) insert(id, bytes(id));
  }
}

std::int32_t Vocabulary::find(std::string_view bytes) const {
  if (slots_.empty() || bytes.size() > longest_) return -1;
  const std::uint64_t hash = hash64(bytes);
  const std::uint32_t tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t i = hash & (slots_.size() - 1); slots_[i].id >= 0;
       i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].tag == tag && this->bytes(slots_[i].id) == bytes) return slots_[i].id;
  }
  return -1;
}

std::int32_t Vocabulary::first_hole() const {
  for (std::int32_t id = 0; id < size(); ++id) {
    if (!has(id)) return id;
  }
  return -1;
}

}  // namespace trireme
