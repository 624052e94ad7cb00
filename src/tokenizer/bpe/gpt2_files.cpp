// Reads GPT-2's vocab.json and merges.txt and refuses what does not fit together.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/foreign_bytes.h"
#include "base/json.h"
#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/bpe/byte_level.h"
#include "tokenizer/fingerprint.h"
#include "tokenizer/vocabulary_lines.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 28;

// Receives a flat object of strings and ids. A parse into a tree would hide repeated keys.
class VocabularyReader : public nlohmann::json_sax<json> {
 public:
  VocabularyReader(const std::string& file, std::string_view content, Vocabulary& vocabulary)
      : file_(file), content_(content), vocabulary_(vocabulary) {}

  // Error in the content, or "". Reported only after the whole file was read, since in a truncated
  // file the last number may be cut.
  const std::string& complaint() const { return complaint_; }

  bool start_object(std::size_t) override { return depth_++ == 0 || wrong_value(); }
  bool end_object() override { return --depth_, true; }
  bool key(std::string& key) override { return key_ = key, true; }
  bool number_unsigned(std::uint64_t id) override { return add(id); }
  bool number_integer(std::int64_t) override { return wrong_value(); }
  bool number_float(double, const std::string&) override { return wrong_value(); }
  bool null() override { return wrong_value(); }
  bool boolean(bool) override { return wrong_value(); }
  bool string(std::string&) override { return wrong_value(); }
  bool binary(json::binary_t&) override { return wrong_value(); }
  bool start_array(std::size_t) override { return wrong_value(); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at, const std::string&, const json::exception& error) override {
    refuse_if_foreign(file_, content_);
    const JsonFault fault = json_fault(content_, at, error.what());
    fail_input("'{}' is not JSON: line {}, column {}: {}", file_, fault.line, fault.column,
               fault.what);
  }

 private:
  template <class... Args>
  bool complain(fmt::format_string<Args...> format, Args&&... args) {
    if (complaint_.empty()) {
      complaint_ = fmt::format("'{}'", file_) + fmt::format(format, std::forward<Args>(args)...);
    }
    return true;
  }

  bool wrong_value() {
    if (depth_ == 0) return complain(" is not a vocabulary: it should be an object of ids");
    return complain(": the id of '{}' is not a whole number from 0 up", key_);
  }

  bool add(std::uint64_t id) {
    if (depth_ != 1) return wrong_value();
    // Ids begin at 0 and leave no holes, so none is as large as the file has bytes.
    if (id >= content_.size()) {
      return complain(": the id {} of '{}' is too large for the number of tokens", id, key_);
    }
    // A key outside the byte alphabet is an added token spelled as it is.
    const std::string bytes = unspell_bytes(key_).value_or(key_);
    const auto small = static_cast<std::int32_t>(id);
    if (vocabulary_.find(bytes) >= 0) return complain(": duplicate entry '{}'", key_);
    if (vocabulary_.has(small)) {
      return complain(": '{}' and '{}' have the same id {}", spell_bytes(vocabulary_.bytes(small)),
                      key_, id);
    }
    vocabulary_.add(small, bytes);
    return true;
  }

  const std::string& file_;
  std::string_view content_;
  Vocabulary& vocabulary_;
  std::string key_;
  std::string complaint_;
  int depth_ = 0;
};

Vocabulary read_vocabulary(const std::string& file, std::string_view content) {
  Vocabulary vocabulary;
  VocabularyReader reader(file, content, vocabulary);
  json::sax_parse(content.begin(), content.end(), &reader);
  if (!reader.complaint().empty()) fail_input("{}", reader.complaint());
  if (vocabulary.count() == 0) fail_input("'{}' contains no tokens", file);
  if (const std::int32_t hole = vocabulary.first_hole(); hole >= 0) {
    fail_input("'{}': no token has the id {}, but ids go up to {}; is the file complete?", file,
               hole, vocabulary.size() - 1);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (vocabulary.find({&text, 1}) < 0) {
      fail_input(
          "'{}' has no token '{}' for the byte 0x{:02x}; a byte-level vocabulary has all 256", file,
          spell_bytes({&text, 1}), byte);
    }
  }
  return vocabulary;
}

// One line "left right" of merges.txt.
struct MergeLine {
  const std::string& file;
  std::size_t number;
  std::string_view text;

  std::int32_t id_of(const Vocabulary& vocabulary, std::string_view spelling) const {
    const auto bytes = unspell_bytes(spelling);
    const std::int32_t id = bytes ? vocabulary.find(*bytes) : -1;
    if (id < 0) {
      fail_input("'{}' line {}: '{}' is not in the vocabulary; do the two files belong together?",
                 file, number, spelling);
    }
    return id;
  }

  void add_to(MergeTable& merges, const Vocabulary& vocabulary) const {
    const std::size_t space = text.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == text.size() ||
        text.find(' ', space + 1) != std::string_view::npos) {
      fail_input("'{}' line {}: '{}' is not a merge: two tokens with one space between them", file,
                 number, text);
    }
    const std::int32_t left = id_of(vocabulary, text.substr(0, space));
    const std::int32_t right = id_of(vocabulary, text.substr(space + 1));
    const std::int32_t merged =
        vocabulary.find(std::string(vocabulary.bytes(left)) + std::string(vocabulary.bytes(right)));
    if (merged < 0) {
      fail_input(
          "'{}' line {}: the merge '{}' makes a token that is not in the vocabulary; do the two "
          "files belong together?",
          file, number, text);
    }
    const auto rank = static_cast<std::uint32_t>(merges.size());
    if (!merges.add(left, right, {rank, merged})) {
      fail_input("'{}' line {}: duplicate merge '{}'", file, number, text);
    }
  }
};

MergeTable read_merges(const std::string& file, std::string_view content,
                       const Vocabulary& vocabulary) {
  refuse_if_foreign(file, content);
  MergeTable merges;
  content = without_byte_order_mark(content);
  for (std::size_t number = 1; !content.empty(); ++number) {
    const std::string_view line = trimmed_end(take_vocabulary_line(content));
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    MergeLine{file, number, line}.add_to(merges, vocabulary);
  }
  return merges;
}

}  // namespace

std::unique_ptr<Tokenizer> load_gpt2(const std::string& vocab_file, const std::string& merge_file,
                                     bool special_text) {
  const std::string vocab_json = read_file(vocab_file, kMaxFile);
  const std::string merges_txt = read_file(merge_file, kMaxFile);
  Vocabulary vocabulary = read_vocabulary(vocab_file, vocab_json);
  MergeTable merges = read_merges(merge_file, merges_txt, vocabulary);
  const std::int32_t eod = vocabulary.find("<|endoftext|>");
  if (eod < 0) fail_input("'{}' has no token '<|endoftext|>', which ends documents", vocab_file);
  ByteLevelParts parts{.bpe = ByteBpe(std::move(vocabulary), std::move(merges), false)};
  parts.added = {{.content = "<|endoftext|>", .id = eod}};
  parts.special_text = special_text;
  parts.special = {.eod = eod, .bos = eod, .eos = eod};
  parts.fingerprint =
      Fingerprint("gpt2").add(vocab_json).add(merges_txt).add(special_text).digest();
  return std::make_unique<ByteLevelTokenizer>(std::move(parts));
}

}  // namespace trireme
