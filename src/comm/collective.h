// Common to all operations of a whole group: their number in the group, and the tag derived from
// it.
#pragma once

#include "comm/operation.h"

namespace trireme {

// Tags: collectives 0 .. 16383 by number, messages one fixed tag (the wire keeps their order),
// rendezvous before a group has its context the rest.
constexpr int collective_tags = 16384;
constexpr int message_tag = 16384;
constexpr int first_rendezvous_tag = 16385;

class Collective : public Operation {
 public:
  Collective(GroupState& group, Label label)
      : Operation(group, label), number_(group.collectives++) {}

  Expectation expectation() const final { return {Expectation::Kind::collective, number_, -1}; }

 protected:
  // Ranks that call different collectives find no partner, instead of each other's bytes.
  int tag() const { return static_cast<int>(number_ % collective_tags); }

 private:
  std::uint64_t number_;
};

}  // namespace trireme
