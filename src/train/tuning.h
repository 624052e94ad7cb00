// Algorithms that the library of a GPU's vendor uses in a run: written to tuning.json in its folder
// and into its checkpoints, so that a resumed run computes the same bits.
#pragma once

#include <string>

#include "backend/choices.h"
#include "backend/device.h"
#include "base/file.h"
#include "comm/transport.h"

namespace trireme {

// As tuning.json and checkpoints hold them.
std::string to_json(const LibraryChoices& choices);
// Refused (exit code 2): what to_json() does not write. `name` appears in messages.
LibraryChoices parse_choices(const std::string& text, const std::string& name);

class Tuning {
 public:
  // A record on rank 0; the other ranks' are not read. Empty text: none.
  struct Record {
    std::string text, name;  // the name as in messages: a path
  };

  // All ranks together, when the device has made the products of the run and before any runs: what
  // the record says, else what the lowest rank that has such a product says, holds for all.
  // Returns a line for the user where the record is of another device or library and therefore not
  // used, or an empty one.
  std::string agree(Device& device, Transport* transport, const Record& record);

  // The choices of all ranks, with what this one has added since; empty where no library computes.
  std::string text(const Device& device) const;

 private:
  LibraryChoices agreed_;
};

}  // namespace trireme
