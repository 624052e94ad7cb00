// Speed of a tokenizer on one core: bytes of text per second of its processor time.
//   bench_tokenizer FILE gpt2 VOCAB_FOLDER | tiktoken RANKS | hf TOKENIZER_JSON | bert VOCAB_TXT |
//     sentencepiece MODEL ...
// A SentencePiece model is also compared with the library, in percent of its speed.
#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "bench.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

using benchmark::State;
using Texts = std::vector<std::string_view>;

// The text in documents of about 4 KB, as preprocessing passes it to a tokenizer.
Texts documents(std::string_view text) {
  Texts out;
  while (!text.empty()) {
    const std::size_t stop = text.find('\n', std::min<std::size_t>(text.size(), 4096));
    const std::size_t size = stop == std::string_view::npos ? text.size() : stop + 1;
    out.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

void load(State& state, const TokenizerConfig& config) {
  for (auto _ : state) make_tokenizer(config);
}

// Encodes all texts; with a new tokenizer each time, which has seen no piece of them, if `cold`.
void encode(State& state, const TokenizerConfig& config, const Texts& texts, bool cold) {
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(config);
  std::vector<std::int32_t> ids;
  std::size_t count = 0, bytes = 0;
  const auto pass = [&] {
    count = 0;
    for (const std::string_view text : texts) {
      ids.clear();
      tokenizer->encode(text, ids);
      count += ids.size();
    }
  };
  pass();
  for (auto _ : state) {
    if (cold) {
      state.PauseTiming();
      tokenizer = make_tokenizer(config);
      state.ResumeTiming();
    }
    pass();
  }
  for (const std::string_view text : texts) bytes += text.size();
  state.counters["ids"] = static_cast<double>(count);
  state.counters["bytes"] = {static_cast<double>(bytes),
                             benchmark::Counter::kIsIterationInvariantRate};
}

// Our encoder and the SentencePiece library alternately, which must give the same ids.
void against_library(State& state, const TokenizerConfig& config, const Texts& texts) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(config);
  sentencepiece::SentencePieceProcessor library;
  if (!library.Load(config.model_file).ok()) fail_input("cannot load '{}'", config.model_file);
  std::vector<std::int32_t> ours;
  std::vector<int> theirs;
  double bytes = 0;
  for (const std::string_view text : texts) {
    bytes += static_cast<double>(text.size());
    ours.clear();
    tokenizer->encode(text, ours);
    if (!library.Encode(text, &theirs).ok() || !std::ranges::equal(ours, theirs)) {
      fail("the library gives other ids for '{}'", text);
    }
  }
  const auto encode = [&] {
    for (const std::string_view text : texts) {
      ours.clear();
      tokenizer->encode(text, ours);
    }
  };
  const auto encode_by_library = [&] {
    for (const std::string_view text : texts) static_cast<void>(library.Encode(text, &theirs));
  };
  bench::in_turns(state, {{"bytes", bytes, encode}, {"library", bytes, encode_by_library}});
}

void run(const TokenizerConfig& config, const char* path) {
  make_tokenizer(config);  // reports what is wrong before anything is measured
  const MappedFile file(path);
  std::string letters;
  for (std::uint32_t i = 0, random = 1; i < 180'000; ++i) {
    random = random * 1664525 + 1013904223;
    letters.push_back(static_cast<char>('a' + (random >> 24) % 26));
  }
  const std::string one_letter(letters.size(), 'a'), spaces(letters.size(), ' ');
  std::string marks = "a";
  for (int i = 0; i < 40'000; ++i) marks += "\u0301\u0323";
  const auto add = [&](const char* name, const Texts& texts, bool cold = false) {
    benchmark::RegisterBenchmark(name, encode, config, texts, cold)->Unit(benchmark::kMillisecond);
  };
  benchmark::RegisterBenchmark("load", load, config)->Unit(benchmark::kMillisecond);
  add("documents/first_pass", documents(file.text()), true);
  add("documents", documents(file.text()));
  if (config.type == "sentencepiece") {
    benchmark::RegisterBenchmark("documents/against_library", against_library, config,
                                 documents(file.text().substr(0, 1 << 20)))
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  add("180kB_of_one_letter", {one_letter});
  add("180kB_of_letters", {letters});
  add("180kB_of_spaces", {spaces});
  add("80000_combining_marks", {marks});
  bench::run_registered();
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    const std::vector<char*> arguments = trireme::bench::initialize(argc, argv);
    if (arguments.size() != 4) trireme::fail_input("usage: {} FILE TYPE MODEL", argv[0]);
    trireme::TokenizerConfig config{.type = arguments[2], .model_file = arguments[3]};
    if (config.type.starts_with("bert")) config.vocab_file = arguments[3];
    trireme::run(config, arguments[1]);
    return 0;
  } catch (const trireme::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
