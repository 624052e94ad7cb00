// Speed of tokenizers on one core: MB of text per second, the median of several passes over a file,
// and the time of a single piece of 180 KB.
//   bench_tokenizer FILE gpt2 VOCAB_FOLDER | tiktoken RANKS | hf TOKENIZER_JSON | bert VOCAB_TXT
//   ...
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tokenizer/tokenizer.h"

namespace trireme {
namespace {

// Processor time of this thread: what else the machine does then matters less.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Body>
double seconds(Body body) {
  const double start = now();
  body();
  return now() - start;
}

// The text in documents of about 4 KB, which is what preprocessing feeds a tokenizer.
std::vector<std::string_view> documents(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t stop = text.find('\n', std::min<std::size_t>(text.size(), 4096));
    const std::size_t size = stop == std::string_view::npos ? text.size() : stop + 1;
    out.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void bench_file(const Tokenizer& tokenizer, const MappedFile& file) {
  const auto texts = documents(file.text());
  std::vector<std::int32_t> ids;
  std::size_t count = 0;
  std::vector<double> times;
  for (int pass = 0; pass < 5; ++pass) {
    count = 0;
    times.push_back(seconds([&] {
      for (const std::string_view text : texts) {
        ids.clear();
        tokenizer.encode(text, ids);
        count += ids.size();
      }
    }));
  }
  const double megabytes = static_cast<double>(file.text().size()) * 1e-6;
  fmt::print("{:.1f} MB, {} ids: {:.1f} MB/s (first pass {:.1f})\n", megabytes, count,
             megabytes / median(times), megabytes / times[0]);
}

void bench_long_piece(const Tokenizer& tokenizer, std::string_view name, const std::string& text) {
  std::vector<std::int32_t> ids;
  const double time = seconds([&] { tokenizer.encode(text, ids); });
  fmt::print("  {} bytes of {}: {:.2f} ms\n", text.size(), name, time * 1e3);
}

void run(int argc, char** argv) {
  if (argc != 4) fail_input("usage: {} FILE TYPE MODEL", argv[0]);
  TokenizerConfig config{.type = argv[2], .model_file = argv[3]};
  if (config.type.starts_with("bert")) config.vocab_file = argv[3];
  std::unique_ptr<Tokenizer> tokenizer;
  fmt::print("{} {}: ", config.type, argv[1]);
  const double load = seconds([&] { tokenizer = make_tokenizer(config); });
  bench_file(*tokenizer, MappedFile(argv[1]));
  fmt::print("  loaded in {:.0f} ms\n", load * 1e3);
  std::string letters;
  for (std::uint32_t i = 0, state = 1; i < 180'000; ++i) {
    state = state * 1664525 + 1013904223;
    letters.push_back(static_cast<char>('a' + (state >> 24) % 26));
  }
  bench_long_piece(*tokenizer, "one letter", std::string(180'000, 'a'));
  bench_long_piece(*tokenizer, "letters", letters);
  bench_long_piece(*tokenizer, "spaces", std::string(180'000, ' '));
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    trireme::run(argc, argv);
    return 0;
  } catch (const trireme::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
