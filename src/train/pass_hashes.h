// Hashes of what the ops of a pass compute: two ranks that compute the same micro-batch have the
// same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "runtime/stage.h"

namespace trireme {

// Hash of the output of a launch. Plain data, to be sent.
struct OpHash {
  std::uint64_t hash = 0;
  // Rises along the model: forward by layer, then backward from the end; within a layer, in the
  // order of the program.
  std::int64_t order = 0;
  std::int32_t op = 0, layer = 0;  // layer -1: outside of blocks
  std::int32_t forward = 0, unused = 0;
};

// "linear of layer 3 (backward)".
std::string to_text(const OpHash& op);

class PassHashes : public Observer {
 public:
  explicit PassHashes(Device& device) : device_(device) {}

  // Leaves out rows that experts have received or lack: their buffers have room for more.
  void after(const Launch& launch) override;

  const std::vector<OpHash>& ops() const { return ops_; }

 private:
  Device& device_;
  std::vector<OpHash> ops_;
};

std::uint64_t digest_of(const std::vector<OpHash>& ops);

// The first op, along the model, whose hash is another one; nothing where all agree. Both lists
// come from the same program.
std::optional<OpHash> first_difference(const std::vector<OpHash>& a, const std::vector<OpHash>& b);

}  // namespace trireme
