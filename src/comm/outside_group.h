// Operations not advanced by the transport, such as those of NCCL or RCCL: they are counted, so
// that ranks that wait too long can report who is missing.
#pragma once

#include <memory>
#include <span>

#include "comm/communicator.h"

namespace trireme {

class OutsideOperation {
 public:
  virtual ~OutsideOperation() = default;
  // Called when this rank reaches the operation. It answers other ranks' queries accordingly.
  virtual void reach() = 0;
  // Called when the operation has completed.
  virtual void finish() = 0;
  // Called repeatedly with the time since reach(): beyond the time limit it ends the job with the
  // message of a timed-out wait, unless there is an excuse.
  virtual void check(double seconds) = 0;
};

class OutsideGroup {
 public:
  virtual ~OutsideGroup() = default;
  // Registers a call by this rank: an exchange or, without transfers, a collective.
  virtual std::shared_ptr<OutsideOperation> call(Label label,
                                                 std::span<const Transfer> transfers) = 0;
};

}  // namespace trireme
