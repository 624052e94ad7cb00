// Implements operations across the lanes of a warp: shuffles, votes, warp barriers.
#include <array>

#include "backend/gpu/ptx/decode.h"
#include "backend/gpu/ptx/lanes.h"

namespace trireme::ptx {
namespace {

enum Mode : std::int64_t { up, down, butterfly, indexed };

// Operands: 0 result, 1 value, 2 distance, 3 clamp, 4 members, 5 predicate if count is 2.
void shuffle(Warp& w, const Instruction& i) {
  const auto *value = w.slot<std::uint32_t>(i.at[1]), *distance = w.slot<std::uint32_t>(i.at[2]),
             *clamp = w.slot<std::uint32_t>(i.at[3]), *members = w.slot<std::uint32_t>(i.at[4]);
  std::uint32_t result[lanes] = {};
  Mask valid = 0;
  for_active(w, [&](int l) {
    if (!has(members[l], l)) throw Fault(l, "a lane that is not in its own mask of members");
    const int segment = static_cast<int>(clamp[l] >> 8 & 31),
              last = static_cast<int>(clamp[l] & 31);
    const int lowest = l & segment, highest = lowest | (last & ~segment);
    const int by = static_cast<int>(distance[l] & 31);
    const int source = i.number == up          ? l - by
                       : i.number == down      ? l + by
                       : i.number == butterfly ? l ^ by
                                               : lowest | (by & ~segment);
    const bool in_range = i.number == up ? source >= highest : source <= highest;
    const int from = in_range ? source : l;
    if (!has(w.active, from))
      throw Fault(l, "a shuffle reads lane " + std::to_string(from) + ", which takes no part");
    result[l] = value[from];
    valid |= Mask{in_range} << l;
  });
  set<std::uint32_t>(w, i.at[0], [&](int l) { return result[l]; });
  if (i.count == 2) set_predicate(w, i.at[5], valid);
}
bool decode_shuffle(Decoding& d) {
  if (d.name() != "shfl" || !d.has("sync") || !d.only({"sync", "up", "down", "bfly", "idx"}))
    return false;
  const std::string& results = d.operand_text(0);
  const std::size_t bar = results.find('|');
  d.to.at[0] = d.slots.of(results.substr(0, bar), 4);
  for (int k = 1; k < 5; ++k) d.operand(k, 4);
  if (bar != std::string::npos) {
    d.to.count = 2;
    d.to.at[5] = d.slots.of_predicate(results.substr(bar + 1));
  }
  d.to.number = d.has("up") ? up : d.has("down") ? down : d.has("bfly") ? butterfly : indexed;
  d.to.flow = Flow::gather;
  d.to.members = static_cast<std::int32_t>(d.to.at[4]);
  d.to.run = shuffle;
  return true;
}

enum Vote : std::int64_t { all, any, equal, ballot };

void vote(Warp& w, const Instruction& i) {
  const Mask yes = *w.slot<Mask>(i.at[1]) & w.active;
  const Mask results[] = {yes == w.active ? all_lanes : 0, yes != 0 ? all_lanes : 0,
                          yes == w.active || yes == 0 ? all_lanes : 0};
  if (i.number == ballot) {
    set<Mask>(w, i.at[0], [&](int) { return yes; });
  } else {
    set_predicate(w, i.at[0], results[i.number]);
  }
}
bool decode_vote(Decoding& d) {
  if (d.name() != "vote" || !d.has("sync") || !d.only({"sync", "all", "any", "uni", "ballot"}))
    return false;
  d.to.number = d.has("all") ? all : d.has("any") ? any : d.has("uni") ? equal : ballot;
  if (d.to.number == ballot) {
    d.operand(0, 4);
  } else {
    d.predicate(0);
  }
  // The operand is negated in the text: !%p1
  if (d.operand_text(1)[0] == '!') return false;
  d.predicate(1);
  d.operand(2, 4);
  d.to.flow = Flow::gather;
  d.to.members = static_cast<std::int32_t>(d.to.at[2]);
  d.to.run = vote;
  return true;
}

void nothing(Warp&, const Instruction&) {}

bool decode_warp_barrier(Decoding& d) {
  if (d.name() != "bar" || !d.has("warp")) return false;
  d.operand(0, 4);
  d.to.flow = Flow::gather;
  d.to.members = static_cast<std::int32_t>(d.to.at[0]);
  d.to.run = nothing;
  return true;
}

}  // namespace

bool decode_exchanges(Decoding& d) {
  return decode_shuffle(d) || decode_vote(d) || decode_warp_barrier(d);
}

}  // namespace trireme::ptx
