// Algorithms chosen by the GPU vendor's library in a run: stored in tuning.json in its folder and
// in its checkpoints, so that a resumed run computes the same bits.
#pragma once

#include <string>

#include "backend/choices.h"
#include "backend/device.h"
#include "base/file.h"
#include "comm/transport.h"

namespace trireme {

// Serializes to the format of tuning.json and checkpoints.
std::string to_json(const LibraryChoices& choices);
// Rejects (exit code 2) text that to_json() does not write. `name` appears in messages.
LibraryChoices parse_choices(const std::string& text, const std::string& name);

class Tuning {
 public:
  // The record on rank 0; other ranks' records are ignored. Empty text: no record.
  struct Record {
    std::string text, name;  // the name as in messages: a path
  };

  // Collective; call after the device has prepared the run's products and before they run. For all
  // ranks, the record's choices apply, or else those of the lowest rank that has the product.
  // Returns a line for the user if the record is ignored because it is for another device or
  // library, otherwise "".
  std::string agree(Device& device, Transport* transport, const Record& record);

  // Returns the choices of all ranks plus this rank's later ones; "" if no library is used.
  std::string text(const Device& device) const;

 private:
  LibraryChoices agreed_;
};

}  // namespace trireme
