// Base of all operations of a whole group: their sequence number in the group, and
// the tag derived from it.
#pragma once

#include "comm/operation.h"

namespace trireme {

// Tag ranges: 0 .. 16383 for collectives by number, one fixed tag for messages (the wire keeps
// their order), and the rest for rendezvous before a group has its context.
constexpr int collective_tags = 16384;
constexpr int message_tag = 16384;
constexpr int first_rendezvous_tag = 16385;

class Collective : public Operation {
 public:
  Collective(GroupState& group, Label label)
      : Operation(group, label), number_(group.collectives++) {}

  Expectation expectation() const final { return {Expectation::Kind::collective, number_, -1}; }

 protected:
  // Mismatched collectives then find no partner, instead of exchanging each other's bytes.
  int tag() const { return static_cast<int>(number_ % collective_tags); }

 private:
  std::uint64_t number_;
};

}  // namespace trireme
