// Hashes of the op outputs of a pass: equal on two ranks that compute the same
// micro-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "runtime/stage.h"

namespace trireme {

// Hash of one launch's output. Trivially copyable, so that it can be sent.
struct OpHash {
  std::uint64_t hash = 0;
  // Increases along the model: forward by layer, then backward from the end; within a layer, in
  // program order.
  std::int64_t order = 0;
  std::int32_t op = 0, layer = 0;  // layer -1: outside of blocks
  std::int32_t forward = 0, unused = 0;
};

// "linear of layer 3 (backward)".
std::string to_text(const OpHash& op);

// Whether an op writes only the used rows of its expert buffers.
bool has_room_to_spare(OpKind op);

class PassHashes : public Observer {
 public:
  explicit PassHashes(Device& device) : device_(device) {}

  // Skips buffers of rows for experts, of which only the used rows are written.
  void after(const Launch& launch) override;

  const std::vector<OpHash>& ops() const { return ops_; }

 private:
  Device& device_;
  std::vector<OpHash> ops_;
};

std::uint64_t digest_of(const std::vector<OpHash>& ops);

// Returns the first op along the model whose hashes differ; empty if all agree. Both lists must
// come from the same program.
std::optional<OpHash> first_difference(const std::vector<OpHash>& a, const std::vector<OpHash>& b);

}  // namespace trireme
