// The names that a pickle may hold: the closed list, and what each means here.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

enum class PickleMeaning : unsigned char {
  inert,         // a class or a function without a meaning here: its objects stay as they are
  dict,          // makes a dictionary
  list,          // makes a list
  set,           // makes a set
  tuple,         // makes a tuple
  default_dict,  // makes a dictionary; its argument makes missing values
  encode,        // makes bytes of a text
  bytes,         // makes bytes of bytes
  storage,       // a class of storages
  dtype,
  tensor,        // makes tensors of storages: _rebuild_tensor_v2
  typed_tensor,  // the same with an element type: _rebuild_tensor_v3
  parameter,     // gives its first argument
  with_type,     // calls its first argument: _rebuild_from_type_v2
};

// The meaning of a name in a module. Refused (exit code 2) if it is not in the list; `file` stands
// for the file in the message.
PickleMeaning pickle_meaning(std::string_view module, std::string_view name,
                             const std::string& file);

}  // namespace trireme
