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

// Keeps the sentence for trireme_last_error() of this thread.
trireme_status note_error(trireme_status status, std::string sentence) noexcept;
// The status of the exception at hand, whose sentence is kept.
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

// Memory of the caller's, which trireme_free() frees.
char* allocate_text(const std::string& text);
void* allocate_bytes(std::size_t bytes);

std::vector<std::string> texts_of(const char* const* texts, std::size_t count);
// Refuses null where a text is expected: `what` is missing.
std::string text_of(const char* text, const char* what);

// A handle for a configuration of ours.
trireme_config* config_handle(const Config& config);

// A folder that goes with its owner.
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

// Whether a path leads to a checkpoint of ours.
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
  // Weights are in one of the two.
  std::unique_ptr<trireme::Scorer> scorer;
  std::unique_ptr<trireme::Generator> generator;
  std::int64_t batch = 0, capacity = 0;  // of the generator
};

struct trireme_tokenizer {
  std::unique_ptr<trireme::TrainedModel> of_model;
  std::unique_ptr<trireme::Tokenizer> own;
  const trireme::Tokenizer* tokenizer = nullptr;
};
