// Counting pieces, in blocks that are cut where a piece ends in any case.
#include <algorithm>

#include "base/foreign_bytes.h"
#include "base/thread_pool.h"
#include "tokenizer/bpe/bpe_trainer.h"
#include "tokenizer/jsonl.h"
#include "tokenizer/patterns/split.h"

namespace trireme {

void PieceCounts::add(std::string_view text) {
  split<SplitPattern::gpt2>(text.data(), text.data() + text.size(),
                            [this](const char* begin, const char* end) {
                              count({begin, static_cast<std::size_t>(end - begin)}, 1);
                            });
}

void PieceCounts::add(const PieceCounts& other) {
  for (std::int32_t id = 0; id < other.pieces_.size(); ++id) {
    count(other.pieces_.bytes(id), other.counts_[static_cast<std::size_t>(id)]);
  }
}

void PieceCounts::count(std::string_view piece, std::uint64_t times) {
  std::int32_t id = pieces_.find(piece);
  if (id < 0) {
    id = pieces_.size();
    pieces_.add(id, piece);
    counts_.push_back(0);
  }
  counts_[static_cast<std::size_t>(id)] += times;
  total_ += times;
}

std::vector<std::pair<std::string_view, std::uint64_t>> PieceCounts::sorted() const {
  std::vector<std::pair<std::string_view, std::uint64_t>> out;
  out.reserve(counts_.size());
  for (std::int32_t id = 0; id < pieces_.size(); ++id) {
    out.emplace_back(pieces_.bytes(id), counts_[static_cast<std::size_t>(id)]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

namespace {

constexpr std::size_t kBlock = 1 << 20;

// Cuts `text` into blocks of about kBlock bytes, each cut after a place where is_cut(text, i)
// holds.
template <class IsCut>
std::vector<std::string_view> cut_blocks(std::string_view text, IsCut is_cut) {
  std::vector<std::string_view> blocks;
  while (!text.empty()) {
    std::size_t end = std::min(kBlock, text.size());
    while (end < text.size() && !is_cut(text, end)) ++end;
    blocks.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return blocks;
}

bool is_visible_ascii(char c) {
  return c > ' ' && c < 0x7F;
}

// A single line end between visible characters is a piece of its own, on which side it may lie.
bool ends_piece(std::string_view text, std::size_t at) {
  return at >= 2 && text[at - 1] == '\n' && is_visible_ascii(text[at - 2]) &&
         is_visible_ascii(text[at]);
}

template <class Count>
PieceCounts count_blocks(const std::vector<std::string_view>& blocks, Count count) {
  ThreadPool& pool = ThreadPool::global();
  std::vector<PieceCounts> of_worker(static_cast<std::size_t>(pool.size()));
  pool.run(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t block, int worker) {
    count(of_worker[static_cast<std::size_t>(worker)], static_cast<std::size_t>(block));
  });
  for (std::size_t i = 1; i < of_worker.size(); ++i) of_worker[0].add(of_worker[i]);
  return std::move(of_worker[0]);
}

}  // namespace

PieceCounts count_text_file(const fs::path& file) {
  const MappedFile mapped(file);
  refuse_unless_text(file.string(), mapped.text());
  const auto blocks = cut_blocks(mapped.text(), ends_piece);
  return count_blocks(blocks,
                      [&](PieceCounts& counts, std::size_t block) { counts.add(blocks[block]); });
}

PieceCounts count_jsonl_file(const fs::path& file, const std::string& key) {
  const MappedFile mapped(file);
  refuse_if_foreign(file.string(), mapped.text());
  const auto blocks = cut_blocks(
      mapped.text(), [](std::string_view text, std::size_t at) { return text[at - 1] == '\n'; });
  std::vector<std::size_t> first_line(blocks.size(), 1);
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    const auto lines = std::count(blocks[i - 1].begin(), blocks[i - 1].end(), '\n');
    first_line[i] = first_line[i - 1] + static_cast<std::size_t>(lines);
  }
  return count_blocks(blocks, [&](PieceCounts& counts, std::size_t block) {
    for_each_line(blocks[block], [&](std::string_view line, std::size_t number) {
      counts.add(json_line_text(line, key, file.string(), first_line[block] + number));
    });
  });
}

}  // namespace trireme
