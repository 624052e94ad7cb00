// Output folder of a conversion.
#pragma once

#include "base/file.h"

namespace trireme {

// Unless the conversion is kept, the destructor empties a folder that was empty and removes a new
// one. It may be a mounted volume, so the conversion does not write elsewhere and rename.
class OutputFolder {
 public:
  explicit OutputFolder(const fs::path& folder) : folder_(folder), existed_(fs::exists(folder)) {
    make_folders(folder);
    kept_ = !fs::is_empty(folder);
  }
  ~OutputFolder() {
    if (kept_) return;
    std::error_code ignored;  // the original error is more informative
    for (fs::directory_iterator it(folder_, ignored), end; !ignored && it != end;
         it.increment(ignored)) {
      fs::remove_all(it->path(), ignored);
    }
    if (!existed_) fs::remove(folder_, ignored);
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  void keep() { kept_ = true; }

 private:
  fs::path folder_;
  bool existed_, kept_ = false;
};

}  // namespace trireme
