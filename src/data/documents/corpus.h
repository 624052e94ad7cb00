// The files of a source of documents, cut into units that can be read in any order: row groups of
// Parquet and Arrow, blocks of plain lines, and whole files of what can only be read from its
// beginning.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/documents/document_chunks.h"

namespace trireme {

struct CorpusOptions {
  std::string key = "text";                // column, or key of JSON lines
  DocumentForm text = DocumentForm::file;  // how a text file is split into documents
  bool skip_bad_rows = false;              // rows and lines without a text are passed over
  std::uint64_t block_bytes = std::uint64_t{8} << 20;  // of plain lines and paragraphs
};

// Immutable; all methods are thread-safe.
class Corpus {
 public:
  // Opens every columnar file once, so that problems are reported now and not during training.
  // Throws bad_input like expand_inputs(), form_of() and ArrowFile, and for nulls recorded in a
  // file's statistics.
  Corpus(const std::vector<std::string>& patterns, const CorpusOptions& options);

  const CorpusOptions& options() const { return options_; }
  // Other files in folders and patterns.
  const std::vector<PassedOver>& passed_over() const { return passed_over_; }
  const std::vector<std::string>& doubts() const { return doubts_; }  // see Inputs
  // The files of text of more than a megabyte that are one document each.
  std::vector<std::string> large_documents() const;
  std::int64_t units() const { return static_cast<std::int64_t>(units_.size()); }
  const std::string& file_of(std::int64_t unit) const { return files_[units_[unit].file].path; }
  // The row group or block of that file.
  std::int64_t part_of(std::int64_t unit) const { return units_[unit].part; }

  // Files that are open, for one thread: most units are of the same file as one of the last.
  struct Opened {
    std::string path;
    std::shared_ptr<const ArrowFile> file;
  };
  // The chunks of a unit; the corpus outlives them.
  std::unique_ptr<ChunkSource> open(std::int64_t unit, Opened& last) const;

  // Equal for the same names, sizes and row groups in the same order, in any folder.
  std::uint64_t key() const { return key_; }

 private:
  struct FileOfCorpus {
    std::string path;
    DocumentForm form = DocumentForm::json_line;
    bool in_blocks = false;
    std::uint64_t bytes = 0;
    std::int64_t units = 1;
  };
  struct Unit {
    std::int32_t file;
    std::int64_t part;
  };

  void look_into(FileOfCorpus& file) const;
  void refuse_nulls(const ArrowFile& columns) const;

  CorpusOptions options_;
  std::vector<FileOfCorpus> files_;
  std::vector<PassedOver> passed_over_;
  std::vector<std::string> doubts_;
  std::vector<Unit> units_;
  std::uint64_t key_ = 0;
};

// Start of the block cut at `offset` of a plain file: the first line that begins there or later,
// for paragraphs the first blank one; the file's size if there is none.
std::uint64_t block_begin(const std::string& file, DocumentForm form, std::uint64_t offset);

}  // namespace trireme
