// Opens Llama folders: the model from params.json, and tensors joined from the ranks' files under
// their Hugging Face names.
#include "formats/llama/folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/error.h"
#include "formats/huggingface/names.h"
#include "formats/huggingface/reader.h"
#include "formats/joined_tensors.h"
#include "formats/llama/names.h"
#include "formats/llama/params.h"

namespace trireme {
namespace {

constexpr const char* params_file = llama_params_file;

std::vector<fs::path> shard_files(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with("consolidated.") && name.ends_with(".pth")) ++count;
  }
  std::vector<fs::path> files;
  for (std::size_t rank = 0; rank < count; ++rank) {
    files.push_back(folder / llama_file_name(rank));
    if (fs::exists(files.back())) continue;
    fail_input("'{}' does not contain '{}': it has {}, and files must be numbered starting at 00",
               folder.string(), llama_file_name(rank), counted(count, "file"));
  }
  if (files.empty()) fail_input("'{}' does not contain '{}'", folder.string(), llama_file_name(0));
  return files;
}

// Opens all ranks' files and joins their tensors.
class LlamaShards : public LlamaTensors {
 public:
  LlamaShards(const fs::path& folder)
      : folder_(folder), joined_(std::make_unique<JoinedTensors>(folder.string(), params_file)) {
    for (const fs::path& file : shard_files(folder))
      shards_.push_back(&joined_->keep(open_weight_file(file)));
  }

  RankParts parts(const std::string& name) const { return parts_in(shards_, name); }
  bool has(const std::string& name) const { return shards_[0]->find(name) != nullptr; }
  std::int64_t rows(const std::string& name) const {
    return parts(name)[0].entry->rows() * static_cast<std::int64_t>(shards_.size());
  }
  std::int64_t inner_width() const override { return rows("layers.0.feed_forward.w1.weight"); }
  // Llama 1 and 2 split the embedding by columns, Llama 3 by rows.
  std::int64_t words(std::int64_t hidden_size) const override {
    const TensorPart first = parts("tok_embeddings.weight")[0];
    return first.entry->columns() == hidden_size ? rows(first.entry->name) : first.entry->rows();
  }

  // Checks the rows of a tensor that is split evenly across ranks.
  void check_queries(std::int64_t query_rows) const override {
    const TensorPart first = parts("layers.0.attention.wq.weight")[0];
    const std::int64_t rows = first.entry->rows();
    const auto count = static_cast<std::int64_t>(shards_.size());
    if (rows * count == query_rows) return;
    fail_input(
        "'{}' has {} (consolidated.NN.pth) with {} of '{}' each, but according to {} there "
        "are {}, so {} were expected",
        folder_.string(), counted(count, "file"), counted(rows, "row"), first.entry->name,
        params_file, counted(query_rows, "row"),
        rows > 0 && query_rows % rows == 0 ? counted(query_rows / rows, "file") : "other files");
  }

  // Whether the head equals the embedding.
  bool is_tied() const override {
    if (!has("output.weight")) return true;
    const RankParts words = parts("tok_embeddings.weight"), head = parts("output.weight");
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!same_weights(*words[i].file, *words[i].entry, *head[i].file, *head[i].entry))
        return false;
    }
    return true;
  }

  std::unique_ptr<JoinedTensors> join(const ModelConfig& model) {
    if (model.tie_embeddings && !is_tied()) {
      fail_input(
          "'{}': 'output.weight' differs from the embedding, but model.tie_embeddings = true would "
          "drop it",
          folder_.string());
    }
    for (const WeightEntry& entry : shards_[0]->tensors()) {
      const std::string theirs = huggingface_name_of_llama(entry.name);
      const bool tied_head = model.tie_embeddings && entry.name == "output.weight";
      if (entry.name != "rope.freqs" && !tied_head) joined_->add(joined(entry, theirs, model));
    }
    require_no_other_tensors(shards_);
    return std::move(joined_);
  }

 private:
  JoinedTensor joined(const WeightEntry& entry, const std::string& theirs,
                      const ModelConfig& model) const {
    RankParts all = parts(entry.name);
    const bool is_words = entry.name == "tok_embeddings.weight";
    const bool by_columns =
        has_cut_columns(entry.name) || (is_words && entry.columns() != model.hidden_size);
    if (by_columns) return join_columns(theirs, std::move(all));
    if (entry.shape.size() < 2) return join_copies(theirs, all);
    JoinedTensor tensor = join_rows(theirs, std::move(all));
    tensor.order = llama_row_order(theirs, model);
    return tensor;
  }

  fs::path folder_;
  std::unique_ptr<JoinedTensors> joined_;
  std::vector<const WeightFile*> shards_;
};

// The tokenizer is in the folder or in its parent, which the models of a download share. It is
// SentencePiece for Llama 1 and 2, and a base64 token list for Llama 3.
TokenizerFiles copy_tokenizer(const fs::path& folder, const fs::path& to) {
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  const fs::path above =
      absolute.filename().empty() ? absolute.parent_path().parent_path() : absolute.parent_path();
  for (const fs::path& place : {folder, above}) {
    const fs::path from = place / "tokenizer.model";
    if (!fs::is_regular_file(from)) continue;
    make_folders(to);
    fs::copy_file(from, to / "tokenizer.model");
    const std::string text = read_file(from, std::uint64_t{64} << 20);
    const bool is_list = text.find('\0') == text.npos && text.find(" 0\n") != text.npos;
    return {is_list ? "tiktoken" : "llama2", "", "", (to / "tokenizer.model").string()};
  }
  return {};
}

}  // namespace

bool is_llama_folder(const fs::path& folder) {
  return fs::exists(folder / params_file) || fs::exists(folder / llama_file_name(0));
}

ForeignModel open_llama_folder(const fs::path& folder, const ModelSettings& settings) {
  const fs::path params = folder / params_file;
  if (!fs::exists(params)) {
    fail_input("'{}' does not contain '{}', which describes the model", folder.string(),
               params_file);
  }
  const std::string name = params.string();
  const HuggingFaceReader json(read_file(params, std::uint64_t{1} << 20), name);
  LlamaShards shards(folder);
  std::string assumed;
  HuggingFaceModel model{&llama_kind, {}, {}, ""};
  model.model = read_llama_params(json, shards, assumed);
  ForeignModel out;
  model.model = with_settings(model.model, settings, out.note);
  validate(model.model);

  out.kind = "Llama";
  out.model = model.model;
  out.mapping = huggingface_mapping(model);
  auto weights = shards.join(out.model);
  weights->require_use_of_all(out.mapping);
  out.weights = std::move(weights);
  out.tokenizer = [folder](const fs::path& to) { return copy_tokenizer(folder, to); };
  if (!assumed.empty()) {
    add_note(out.note,
             fmt::format(
                 "{} does not define all settings of positions; assumed: {} (--set changes them)",
                 params_file, assumed));
  }
  return out;
}

}  // namespace trireme
