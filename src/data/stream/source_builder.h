// From the sources of [data] to datasets: training straight from text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/bert/masks.h"
#include "data/dataset.h"
#include "data/documents/corpus.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

class SourceBuilder {
 public:
  // Loads the tokenizer that the configuration names; throws bad_input where it names none.
  SourceBuilder(const Config& config, const MaskOptions& masks);

  // Makes the datasets store the places that a run needs to resume quickly, in run.dir. For one
  // process of a run; the others read them.
  void write_places() { writes_places_ = true; }

  // `entries` are the value of `key`, data.sources or data.valid_sources: with weights a blend of
  // at least `samples` samples, without them one source of all files. Throws bad_input for what is
  // not there or not as the configuration says.
  std::shared_ptr<const Dataset> build(const std::string& key,
                                       const std::vector<std::string>& entries,
                                       std::int64_t samples);

  // Notes about the sources that were built, a line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::shared_ptr<const Dataset> build_one(const std::vector<std::string>& patterns,
                                           const std::string& column);
  void take_notes(const Corpus& corpus);

  Config config_;
  MaskOptions masks_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool writes_places_ = false;
  std::vector<std::string> notes_;
};

}  // namespace trireme
