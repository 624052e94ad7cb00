// Workers take one chunk after the other, encode them concurrently and hand them to the writer in
// order.
#include "data/preprocess.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/thread.h"
#include "data/documents/document_encoder.h"
#include "data/indexed_writer.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Every chunk has a number. Reading and writing happen under a lock each; encoding, which takes
// nearly all of the time, does not. A worker that is far ahead of the writer waits, so that the
// chunks in memory are bounded.
class Pipeline {
 public:
  Pipeline(const Tokenizer& tokenizer, const PreprocessOptions& options)
      : tokenizer_(tokenizer),
        options_(options),
        inputs_(expand_inputs(options.inputs)),
        reader_(inputs_.files, options.text_documents, options.all_text, options.json_keys),
        ahead_(std::int64_t{2} * options.workers) {
    result_.json_lines_in_txt = reader_.json_lines_in_txt();
    result_.large_documents = reader_.large_documents();
    result_.passed_over = inputs_.passed_over;
    result_.doubts = inputs_.doubts;
    const fs::path folder = fs::path(options.output_prefix).parent_path();
    if (!folder.empty()) make_folders(folder);
    for (const std::string& key : options.json_keys) {
      if (key.find('/') != key.npos)
        fail_input("--json-keys: '{}' cannot be part of a file name", key);
      const std::string prefix = fmt::format("{}_{}_{}", options.output_prefix, key,
                                             options.split_sentences ? "sentence" : "document");
      result_.outputs.push_back({.key = key, .prefix = prefix});
      writers_.emplace_back(prefix, token_type_for(tokenizer.vocab_size()));
    }
  }

  PreprocessResult run(const std::function<void(const PreprocessProgress&)>& progress) {
    std::vector<std::thread> threads;
    try {
      for (int i = 0; i < options_.workers; ++i) {
        threads.push_back(start_thread(fmt::format("use fewer --workers than {}", options_.workers),
                                       [this] { work(); }));
        const std::lock_guard lock(write_mutex_);
        ++running_;
      }
    } catch (...) {
      end_with(std::current_exception());
    }
    watch(progress);
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    if (progress) progress(snapshot());
    finish();
    return std::move(result_);
  }

 private:
  struct Done {
    EncodedChunk chunk;
    std::exception_ptr error;
  };

  void work() {
    try {
      take_chunks();
    } catch (...) {
      end_with(std::current_exception());
    }
    const std::lock_guard lock(write_mutex_);
    --running_;
    changed_.notify_all();
  }

  void take_chunks() {
    DocumentEncoder encoder(tokenizer_, options_);
    Chunk chunk;
    for (;;) {
      std::int64_t number = 0;
      Done done;
      bool more = false;
      {
        const std::lock_guard lock(read_mutex_);
        number = next_to_read_++;
        try {
          more = !ended_ && reader_.next(chunk);
        } catch (...) {
          done.error = std::current_exception();
        }
        ended_ = !more;
        file_bytes_ = reader_.consumed_bytes();
      }
      if (more) {
        try {
          done.chunk = encoder.encode(chunk);
        } catch (...) {
          done.error = std::current_exception();
        }
      }
      if (!more && !done.error) break;
      if (!submit(number, std::move(done))) break;
    }
  }

  // Makes all threads stop; the first error is the one that is reported.
  void end_with(std::exception_ptr error) {
    const std::lock_guard lock(write_mutex_);
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }

  // False once an error has ended the work.
  bool submit(std::int64_t number, Done done) {
    std::unique_lock lock(write_mutex_);
    changed_.wait(lock, [&] { return error_ || number < next_to_write_ + ahead_; });
    if (error_) return false;
    waiting_.emplace(number, std::move(done));
    const std::int64_t before = next_to_write_;
    for (auto first = waiting_.begin();
         first != waiting_.end() && first->first == next_to_write_ && !error_;
         first = waiting_.erase(first), ++next_to_write_) {
      try {
        if (first->second.error) std::rethrow_exception(first->second.error);
        write(first->second.chunk);
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    if (error_ || next_to_write_ != before) changed_.notify_all();
    return !error_;
  }

  void write(const EncodedChunk& chunk) {
    for (std::size_t k = 0; k < writers_.size(); ++k) {
      const EncodedChunk::Output& output = chunk.outputs[k];
      writers_[k].add_encoded(std::as_bytes(std::span(output.tokens)), output.lengths,
                              output.sequences_of_document);
    }
    result_.documents += chunk.documents;
    result_.text_bytes += chunk.text_bytes;
    if (result_.bad_lines == 0) result_.first_bad_line = chunk.first_bad_line;
    result_.bad_lines += chunk.bad_lines;
    if (result_.repaired_documents == 0) result_.first_repaired = chunk.first_repaired;
    result_.repaired_documents += chunk.repaired_documents;
  }

  void finish() {
    if (result_.documents == 0) {
      std::string rest = result_.bad_lines > 0 ? "; " + result_.first_bad_line : "";
      for (const std::string& line : lines_about(result_.passed_over)) rest += "; " + line;
      fail_input("the input contains no documents{}", rest);
    }
    // An error in the middle of this leaves the files of all keys as they were.
    for (IndexedDatasetWriter& writer : writers_) writer.complete();
    for (IndexedDatasetWriter& writer : writers_) writer.keep();
    for (std::size_t k = 0; k < writers_.size(); ++k) {
      result_.outputs[k].documents = writers_[k].documents();
      result_.outputs[k].sequences = writers_[k].sequences();
      result_.outputs[k].tokens = writers_[k].tokens();
    }
    result_.seconds = elapsed();
  }

  // Shows progress until all workers are done.
  void watch(const std::function<void(const PreprocessProgress&)>& progress) {
    std::unique_lock lock(write_mutex_);
    Clock::time_point shown = Clock::now();
    while (running_ > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(200));
      if (!progress || Clock::now() - shown < std::chrono::milliseconds(200)) continue;
      shown = Clock::now();
      const PreprocessProgress now = snapshot();
      lock.unlock();
      try {
        progress(now);
      } catch (...) {
        return end_with(std::current_exception());
      }
      lock.lock();
    }
  }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  PreprocessProgress snapshot() const {
    return {result_.documents, result_.text_bytes, file_bytes_, reader_.total_bytes(), elapsed()};
  }

  const Tokenizer& tokenizer_;
  const PreprocessOptions& options_;
  const Clock::time_point begin_ = Clock::now();

  const Inputs inputs_;
  std::mutex read_mutex_;
  ChunkReader reader_;
  std::int64_t next_to_read_ = 0;
  bool ended_ = false;
  std::atomic<std::uint64_t> file_bytes_ = 0;

  std::mutex write_mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Done> waiting_;
  std::int64_t next_to_write_ = 0;
  const std::int64_t ahead_;  // chunks that may wait
  int running_ = 0;           // threads
  std::exception_ptr error_;
  std::vector<IndexedDatasetWriter> writers_;
  PreprocessResult result_;
};

}  // namespace

PreprocessResult preprocess(const Tokenizer& tokenizer, const PreprocessOptions& options,
                            const std::function<void(const PreprocessProgress&)>& progress) {
  if (options.append_eod && tokenizer.eod_id() < 0) {
    fail_input("--append-eod: this tokenizer has no end-of-document token");
  }
  if (options.json_keys.empty()) fail_input("--json-keys: give at least one key");
  for (std::size_t k = 0; k < options.json_keys.size(); ++k) {
    if (std::count(options.json_keys.begin(), options.json_keys.end(), options.json_keys[k]) > 1) {
      fail_input("--json-keys: duplicate key '{}'", options.json_keys[k]);
    }
  }
  return Pipeline(tokenizer, options).run(progress);
}

}  // namespace trireme
