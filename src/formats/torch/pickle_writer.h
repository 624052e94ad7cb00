// Pickles of protocol 2, put together operation by operation.
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
  // Of a class or a function; later ones refer to the first.
  void put_name(const std::string& module, std::string_view name);
  void put_tuple(const std::vector<std::int64_t>& values);

  // Containers, whose items come between begin and end.
  void begin_tuple() { text_ += '('; }
  void end_tuple() { text_ += 't'; }
  void begin_list() { text_ += "]("; }
  void end_list() { text_ += 'e'; }
  void begin_dict() { text_ += "}("; }
  void end_dict() { text_ += 'u'; }

  // Calls the name below the tuple on top.
  void call() { text_ += 'R'; }
  // An object of a class without arguments; its state follows, and then build().
  void put_object(const std::string& module, std::string_view name);
  void build() { text_ += 'b'; }
  // The tuple on top is the description of a storage.
  void make_storage() { text_ += 'Q'; }

  std::string take() { return std::move(text_) + '.'; }

 private:
  std::string text_ = "\x80\x02";
  std::map<std::string, std::uint32_t, std::less<>> names_;
};

}  // namespace trireme
