// The C interface: tokenizers, batched over the thread pool.
#include <algorithm>
#include <mutex>
#include <string_view>

#include "base/thread_pool.h"
#include "formats/foreign_model.h"
#include "importers/folder/formats.h"
#include "library/c_handles.h"

namespace trireme::c {
namespace {

// The pool serves one caller at a time: concurrent callers run single-threaded.
void for_each_task(std::int64_t tasks, const std::function<void(std::int64_t)>& body) {
  static std::mutex mutex;
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) return parallel_for(tasks, body);
  for (std::int64_t task = 0; task < tasks; ++task) body(task);
}

// Splits items at `offsets` into contiguous tasks of about equally many elements.
std::vector<std::int64_t> task_borders(const std::int64_t* offsets, std::int64_t count,
                                       std::int64_t elements) {
  std::vector<std::int64_t> borders{0};
  for (std::int64_t i = 0; i < count; ++i) {
    if (offsets[i] > offsets[i + 1]) fail_input("offset {} is above the next one", i);
    if (i + 1 == count || offsets[i + 1] - offsets[borders.back()] >= elements)
      borders.push_back(i + 1);
  }
  return borders;
}

// Each task produces one part of the output from its items; parts are then concatenated: make(item,
// part) appends to a part.
template <class Part, class Element, class Make>
void make_parts(const std::int64_t* offsets, std::int64_t count, Element** out,
                std::int64_t* out_offsets, const Make& make) {
  constexpr std::int64_t elements_of_task = 1 << 15;
  const std::vector<std::int64_t> borders = task_borders(offsets, count, elements_of_task);
  const std::size_t tasks = borders.size() - 1;
  std::vector<Part> parts(tasks);
  for_each_task(static_cast<std::int64_t>(tasks), [&](std::int64_t task) {
    Part& part = parts[static_cast<std::size_t>(task)];
    for (std::int64_t i = borders[task]; i < borders[task + 1]; ++i) {
      make(i, part);
      out_offsets[i + 1] = static_cast<std::int64_t>(part.size());
    }
  });
  std::vector<std::int64_t> begins(tasks);
  std::int64_t total = 0;
  out_offsets[0] = 0;
  for (std::size_t task = 0; task < tasks; ++task) {
    begins[task] = total;
    for (std::int64_t i = borders[task]; i < borders[task + 1]; ++i) out_offsets[i + 1] += total;
    total += static_cast<std::int64_t>(parts[task].size());
  }
  auto* const all =
      static_cast<Element*>(allocate_bytes(static_cast<std::size_t>(total) * sizeof(Element)));
  for (std::size_t task = 0; task < tasks; ++task)
    std::copy(parts[task].begin(), parts[task].end(), all + begins[task]);
  *out = all;
}

void encode_one(const Tokenizer& tokenizer, std::string_view text, trireme_encode_kind kind,
                std::vector<std::int32_t>& ids) {
  switch (kind) {
    case TRIREME_ENCODE_PLAIN:
      return tokenizer.encode(text, ids);
    case TRIREME_ENCODE_DOCUMENT:
      return tokenizer.encode_document(text, ids);
    case TRIREME_ENCODE_PROMPT:
      return tokenizer.encode_prompt(text, ids);
    case TRIREME_ENCODE_SPECIAL: {
      const Encoding encoding = tokenizer.encode_with_special(text);
      ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
      return;
    }
  }
  fail_input("unknown encoding kind {}", static_cast<int>(kind));
}

void take(trireme_tokenizer& handle, const TokenizerConfig& config) {
  handle.own = make_tokenizer(config);
  handle.tokenizer = handle.own.get();
}

// Takes the tokenizer of another program's folder, whose files are copied temporarily.
void take_foreign(trireme_tokenizer& handle, const fs::path& path) {
  const ForeignModel model = foreign_format("", path).open(path, {});
  const TemporaryFolder folder;
  const TokenizerFiles files = model.tokenizer ? model.tokenizer(folder.path()) : TokenizerFiles{};
  if (files.type.empty()) {
    fail_input("'{}' contains no known tokenizer{}{}", path.string(),
               files.note.empty() ? "" : ": ", files.note);
  }
  take(handle, {.type = files.type,
                .vocab_file = files.vocab_file,
                .merge_file = files.merge_file,
                .model_file = files.model_file,
                .pattern = {}});
}

void find(trireme_tokenizer& handle, const fs::path& path) {
  if (fs::is_regular_file(path)) {
    if (path.extension() != ".json")
      fail_input("the type of tokenizer cannot be determined from '{}': give its type and files",
                 path.string());
    return take(handle, {.type = "hf", .model_file = path.string(), .pattern = {}});
  }
  if (holds_own_checkpoint(path)) {
    handle.of_model = std::make_unique<TrainedModel>(path);
    handle.tokenizer = &handle.of_model->tokenizer();
    return;
  }
  if (fs::exists(path / "tokenizer.json"))
    return take(handle, {.type = "hf", .model_file = (path / "tokenizer.json").string()});
  if (fs::exists(path / "vocab.json") && fs::exists(path / "merges.txt")) {
    return take(handle, {.type = "gpt2",
                         .vocab_file = (path / "vocab.json").string(),
                         .merge_file = (path / "merges.txt").string()});
  }
  take_foreign(handle, path);
}

}  // namespace
}  // namespace trireme::c

using namespace trireme::c;

trireme_status trireme_tokenizer_open(const char* type, const char* vocab_file,
                                      const char* merge_file, const char* model_file,
                                      trireme_tokenizer** tokenizer) {
  return guarded([&] {
    const auto text = [](const char* given) { return std::string(given ? given : ""); };
    auto made = std::make_unique<trireme_tokenizer>();
    take(*made, {.type = text_of(type, "the type of the tokenizer"),
                 .vocab_file = text(vocab_file),
                 .merge_file = text(merge_file),
                 .model_file = text(model_file),
                 .pattern = {}});
    *tokenizer = made.release();
  });
}

trireme_status trireme_tokenizer_find(const char* path, trireme_tokenizer** tokenizer) {
  return guarded([&] {
    auto made = std::make_unique<trireme_tokenizer>();
    find(*made, text_of(path, "the path of the tokenizer"));
    *tokenizer = made.release();
  });
}

void trireme_tokenizer_close(trireme_tokenizer* tokenizer) {
  delete tokenizer;
}

void trireme_tokenizer_info_of(const trireme_tokenizer* tokenizer, trireme_tokenizer_info* info) {
  const trireme::Tokenizer& t = *tokenizer->tokenizer;
  const trireme::SpecialIds& s = t.special();
  *info = {t.vocab_size(), s.eod, s.bos, s.eos,  s.pad,
           s.unk,          s.cls, s.sep, s.mask, t.fingerprint()};
}

trireme_status trireme_tokenizer_encode(const trireme_tokenizer* tokenizer, const char* bytes,
                                        const int64_t* offsets, int64_t count,
                                        trireme_encode_kind kind, int32_t** ids,
                                        int64_t* id_offsets) {
  return guarded([&] {
    make_parts<std::vector<std::int32_t>>(
        offsets, count, ids, id_offsets, [&](std::int64_t i, std::vector<std::int32_t>& part) {
          const auto size = static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
          encode_one(*tokenizer->tokenizer, {bytes + offsets[i], size}, kind, part);
        });
  });
}

trireme_status trireme_tokenizer_decode(const trireme_tokenizer* tokenizer, const int32_t* ids,
                                        const int64_t* id_offsets, int64_t count,
                                        int32_t skip_special, char** bytes, int64_t* offsets) {
  return guarded([&] {
    make_parts<std::string>(
        id_offsets, count, bytes, offsets, [&](std::int64_t i, std::string& part) {
          const auto size = static_cast<std::size_t>(id_offsets[i + 1] - id_offsets[i]);
          part += tokenizer->tokenizer->decode({ids + id_offsets[i], size}, skip_special != 0);
        });
  });
}
