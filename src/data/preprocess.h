// From text to indexed token files, on several threads and in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/documents/document_chunks.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

struct PreprocessOptions {
  std::vector<std::string> inputs;                // files or patterns
  std::vector<std::string> json_keys = {"text"};  // one pair of files is written for each
  std::string output_prefix;
  bool append_eod = false;
  bool split_sentences = false;  // one sequence per sentence; files end in _sentence
  bool keep_newlines = false;    // sentences keep the white space that follows them
  bool skip_bad_lines = false;   // lines that cannot be read are counted, not an error
  DocumentForm text_documents = DocumentForm::file;  // how a text file is split into documents
  bool all_text = false;  // every input is text, whatever its name and content
  int workers = 1;
};

struct PreprocessProgress {
  std::int64_t documents = 0;
  std::int64_t text_bytes = 0;   // of input, after decompression
  std::uint64_t file_bytes = 0;  // of input files read
  std::uint64_t total_file_bytes = 0;
  double seconds = 0;
};

struct PreprocessOutput {
  std::string key, prefix;
  std::int64_t documents = 0, sequences = 0, tokens = 0;
};

struct PreprocessResult {
  std::vector<PreprocessOutput> outputs;
  std::int64_t documents = 0;  // read; each output has as many
  std::int64_t text_bytes = 0;
  std::int64_t bad_lines = 0;
  std::string first_bad_line;  // why and where; empty if none
  // Inputs named .txt that were read as JSON lines because they begin like them.
  std::vector<std::string> json_lines_in_txt;
  // Inputs of more than a megabyte that are one document each.
  std::vector<std::string> large_documents;
  // Files of the given folders that were not read.
  std::vector<PassedOver> passed_over;
  std::vector<std::string> doubts;  // see Inputs
  // Documents with bytes that are not UTF-8 and became U+FFFD.
  std::int64_t repaired_documents = 0;
  std::string first_repaired;  // the file and line of the first
  double seconds = 0;
};

// Writes `<output_prefix>_<key>_document.{bin,idx}` (`_sentence` with split_sentences) for each
// key; the prefix's folder is made. The bytes do not depend on the number of workers. `progress` is
// called a few times per second in the calling thread; what it throws ends the work. On an error
// nothing is left behind, and older files stay as they were; the message of a bad line names the
// first one, with its file and number.
PreprocessResult preprocess(const Tokenizer& tokenizer, const PreprocessOptions& options,
                            const std::function<void(const PreprocessProgress&)>& progress);

}  // namespace trireme
