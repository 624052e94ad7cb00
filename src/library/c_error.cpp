// Errors, memory and strings of the C interface.
#include <stdlib.h>

#include <new>
#include <utility>

#include "base/as_error.h"
#include "checkpoint/layout.h"
#include "formats/deepspeed/folder.h"
#include "library/c_handles.h"

namespace trireme::c {
namespace {

thread_local std::string last_error;

}  // namespace

trireme_status note_error(trireme_status status, std::string sentence) noexcept {
  last_error = std::move(sentence);
  return status;
}

trireme_status note_caught() noexcept {
  const auto note = [](int code, const char* sentence) {
    try {
      return note_error(static_cast<trireme_status>(code), sentence);
    } catch (const std::exception&) {  // out of memory for the message
      last_error.clear();
      return TRIREME_FAILED;
    }
  };
  try {
    throw;
  } catch (const v1::Error& error) {
    return note(static_cast<int>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return note(TRIREME_FAILED, "no memory");
  } catch (const std::exception& caught) {
    const Error error = as_error(caught);
    return note(static_cast<int>(error.code()), error.what());
  } catch (...) {
    return note(TRIREME_FAILED, "an exception of an unknown type");
  }
}

void* allocate_bytes(std::size_t bytes) {
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

char* allocate_text(const std::string& text) {
  auto* const memory = static_cast<char*>(allocate_bytes(text.size() + 1));
  std::memcpy(memory, text.c_str(), text.size() + 1);
  return memory;
}

std::string text_of(const char* text, const char* what) {
  if (!text) fail_input("{} is missing", what);
  return text;
}

std::vector<std::string> texts_of(const char* const* texts, std::size_t count) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(text_of(texts[i], "a text"));
  return all;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "trireme-XXXXXX").string();
  if (!mkdtemp(name.data())) {
    fail("cannot create a temporary folder in '{}': {} (set TMPDIR to use another place)",
         fs::temp_directory_path().string(), std::strerror(errno));
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

// DeepSpeed also has a file named `latest`.
bool holds_own_checkpoint(const fs::path& path) {
  return !is_deepspeed_folder(path) && find_checkpoint(path);
}

}  // namespace trireme::c

int32_t trireme_c_version() {
  return TRIREME_C_VERSION;
}
const char* trireme_version() {
  return TRIREME_VERSION;
}
const char* trireme_last_error() {
  return trireme::c::last_error.c_str();
}
void trireme_free(void* memory) {
  std::free(memory);
}
