// Threads take one block after the other and encode them at the same time.
#include "data/stream/block_producer.h"

#include "base/thread.h"

namespace trireme {

BlockProducer::BlockProducer(const Corpus& corpus, const Tokenizer& tokenizer,
                             const WindowOptions& options, const CorpusPlace& place, int threads)
    : corpus_(corpus), tokenizer_(tokenizer), reader_(corpus, options, place) {
  try {
    for (int i = 0; i < threads; ++i) {
      threads_.push_back(start_thread("decrease data.tokenizer_threads", [this] { work(); }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

BlockProducer::~BlockProducer() {
  stop();
}

void BlockProducer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

TokenBlock BlockProducer::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_.contains(taken_); });
  const auto first = done_.find(taken_);
  // An error is sticky: the next call throws it again.
  if (first->second.error) std::rethrow_exception(first->second.error);
  TokenBlock block = std::move(first->second.block);
  done_.erase(first);
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  return block;
}

void BlockProducer::work() {
  for (;;) {
    std::int64_t number = 0;
    Done done;
    try {
      Work work;
      {
        const std::lock_guard lock(read_mutex_);
        number = next_block_++;
        work = cut();
      }
      done.block = encode(work);
    } catch (...) {
      done.error = std::current_exception();
    }
    const bool failed = done.error != nullptr;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || number < taken_ + most_ahead; });
    if (stopping_) return;
    done_.emplace(number, std::move(done));
    changed_.notify_all();
    if (failed) return;  // what follows is not asked for
  }
}

BlockProducer::Work BlockProducer::cut() {
  if (!window_ || next_document_ == window_->documents.size()) {
    window_ = nullptr;
    window_ = std::make_shared<const Window>(reader_.next());
    next_document_ = 0;
  }
  Work work{window_, next_document_, next_document_};
  for (std::size_t bytes = 0; bytes < block_bytes && work.last < window_->documents.size();
       ++work.last) {
    const Window::Document& document = window_->documents[work.last];
    for (std::size_t t = 0; t < document.texts; ++t) {
      bytes += window_->texts[document.first_text + t].size;
    }
  }
  next_document_ = work.last;
  return work;
}

TokenBlock BlockProducer::encode(const Work& work) const {
  TokenBlock block;
  if (work.first == 0) block.window = work.window->place;
  for (std::size_t d = work.first; d < work.last; ++d) {
    const Window::Document& document = work.window->documents[d];
    const std::size_t before = block.tokens.size();
    for (std::size_t t = 0; t < document.texts; ++t) {
      tokenizer_.encode_document(work.window->text(document.first_text + t), block.tokens);
    }
    if (block.tokens.size() == before) continue;  // as in preprocess
    block.tokens.push_back(tokenizer_.eod_id());
    block.documents.push_back(
        {document.unit, document.row, static_cast<std::int64_t>(block.tokens.size() - before)});
  }
  return block;
}

}  // namespace trireme
