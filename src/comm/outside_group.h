// Operations that something else than the transport moves, such as a GPU's library of collectives:
// counted, so that ranks that wait for too long are told who is missing.
#pragma once

#include <memory>
#include <span>

#include "comm/communicator.h"

namespace trireme {

class OutsideOperation {
 public:
  virtual ~OutsideOperation() = default;
  // Its turn has come on this rank. Other ranks that ask are told so.
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
