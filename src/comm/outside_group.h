// Operations that something other than the transport advances, such as a GPU's library of
// collectives: they are counted, so that ranks that wait too long can report who is missing.
#pragma once

#include <memory>
#include <span>

#include "comm/communicator.h"

namespace trireme {

class OutsideOperation {
 public:
  virtual ~OutsideOperation() = default;
  // Called when this rank reaches the operation. Other ranks that ask get this answer.
  virtual void reach() = 0;
  // It is over.
  virtual void finish() = 0;
  // It has been under way for so long since reach(): beyond the time limit this ends the job with
  // the message of a wait that takes too long, unless there is an excuse. Asked again and again.
  virtual void check(double seconds) = 0;
};

class OutsideGroup {
 public:
  virtual ~OutsideGroup() = default;
  // This rank calls one: an exchange, or without transfers a collective.
  virtual std::shared_ptr<OutsideOperation> call(Label label,
                                                 std::span<const Transfer> transfers) = 0;
};

}  // namespace trireme
