// The closed list of names allowed in a pickle, with their meanings.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

enum class PickleMeaning : unsigned char {
  inert,         // class or function without a meaning here: objects stay inert
  dict,          // constructs a dictionary
  list,          // constructs a list
  set,           // constructs a set
  tuple,         // constructs a tuple
  default_dict,  // constructs a dictionary; its argument is the default factory
  encode,        // encodes a text to bytes
  bytes,         // converts bytes to bytes
  storage,       // storage class
  dtype,
  tensor,        // constructs tensors from storages: _rebuild_tensor_v2
  typed_tensor,  // same with an element type: _rebuild_tensor_v3
  parameter,     // returns its first argument
  with_type,     // calls its first argument: _rebuild_from_type_v2
};

// Meaning of a name in a module. Refused (exit code 2) if it is not listed; `file` is the file's
// name for messages.
PickleMeaning pickle_meaning(std::string_view module, std::string_view name,
                             const std::string& file);

}  // namespace trireme
