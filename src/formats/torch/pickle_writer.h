// Writes protocol 2 pickles opcode by opcode.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class PickleText {
 public:
  // Values.
  void put_none() { text_ += 'N'; }
  void put(bool value) { text_ += value ? '\x88' : '\x89'; }
  void put(std::int64_t value);
  void put(double value);
  void put(std::string_view value);
  void put(const char* value) { put(std::string_view(value)); }
  // Writes a class or function name; repeated names refer to the first one.
  void put_name(const std::string& module, std::string_view name);
  void put_tuple(const std::vector<std::int64_t>& values);

  // Containers; items are written between begin and end.
  void begin_tuple() { text_ += '('; }
  void end_tuple() { text_ += 't'; }
  void begin_list() { text_ += "]("; }
  void end_list() { text_ += 'e'; }
  void begin_dict() { text_ += "}("; }
  void end_dict() { text_ += 'u'; }

  // Calls the function below the argument tuple on top of the stack.
  void call() { text_ += 'R'; }
  // An object of a class without arguments, to be followed by its state and build().
  void put_object(const std::string& module, std::string_view name);
  void build() { text_ += 'b'; }
  // Makes a storage from the description tuple on top of the stack.
  void make_storage() { text_ += 'Q'; }

  std::string take() { return std::move(text_) + '.'; }

 private:
  std::string text_ = "\x80\x02";
  std::map<std::string, std::uint32_t, std::less<>> names_;
};

}  // namespace trireme
