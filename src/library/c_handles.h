// Contents of the C interface's handles, and conversion of exceptions to error codes.
#pragma once

#include <trireme/config.h>
#include <trireme/trireme.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/reader.h"
#include "generate/generator.h"
#include "generate/scorer.h"
#include "generate/trained_model.h"
#include "library/impl.h"
#include "tokenizer/tokenizer.h"

namespace trireme::c {

// Stores the message for this thread's trireme_last_error().
trireme_status note_error(trireme_status status, std::string sentence) noexcept;
// Returns the status of the exception being handled, and stores its message.
trireme_status note_caught() noexcept;

// Wrapper for every function of the interface that can fail: converts exceptions to codes.
template <class Body>
trireme_status guarded(const Body& body) noexcept {
  try {
    body();
    return TRIREME_OK;
  } catch (...) {
    return note_caught();
  }
}

// Memory owned by the caller, to be freed by trireme_free().
char* allocate_text(const std::string& text);
void* allocate_bytes(std::size_t bytes);

std::vector<std::string> texts_of(const char* const* texts, std::size_t count);
// Rejects null where a text is required; `what` names it in the message.
std::string text_of(const char* text, const char* what);

// Creates a handle for an internal configuration.
trireme_config* config_handle(const Config& config);

// A temporary folder, removed by its owner's destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Whether a path refers to a Trireme checkpoint.
bool holds_own_checkpoint(const fs::path& path);

}  // namespace trireme::c

struct trireme_config {
  trireme::v1::Config config;
  const trireme::Config& values() const { return config.impl().config; }
};

struct trireme_model {
  std::optional<trireme::c::TemporaryFolder> converted;  // of another program's folder
  std::vector<std::string> overrides;
  std::unique_ptr<trireme::TrainedModel> model;
  // Exactly one of the two holds the weights.
  std::unique_ptr<trireme::Scorer> scorer;
  std::unique_ptr<trireme::Generator> generator;
  std::int64_t batch = 0, capacity = 0;  // of the generator
};

struct trireme_tokenizer {
  std::unique_ptr<trireme::TrainedModel> of_model;
  std::unique_ptr<trireme::Tokenizer> own;
  const trireme::Tokenizer* tokenizer = nullptr;
};
