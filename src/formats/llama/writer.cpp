// Uses the names, splits and row order that Meta's programs expect.
#include "formats/llama/writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "formats/foreign_model.h"
#include "formats/llama/names.h"
#include "formats/llama/params.h"
#include "formats/rank_files.h"

namespace trireme {
namespace {

constexpr const char* meta_words = "tok_embeddings.weight";
constexpr const char* meta_head = "output.weight";

struct MetaItem {
  std::string name;
  std::size_t target;
  RankCut cut;
};

void check_parts(const ModelConfig& m, int parts) {
  for (const auto& [key, number] : {std::pair{"num_heads", m.num_heads},
                                    {"num_kv_heads", m.num_kv_heads},
                                    {"ffn_hidden_size", m.ffn_hidden_size},
                                    {"vocab_size", m.vocab_size}}) {
    if (number % parts == 0) continue;
    fail_input("--tp {} does not divide model.{} = {}, which must be split evenly over the files",
               parts, key, number);
  }
}

// Llama 1 and 2 split the embedding by columns. Llama 3, recognized by its RoPE base, splits rows,
// as do models with tied embeddings, which only exist since Llama 3.
bool has_cut_words(const ModelConfig& m) {
  return m.rope_base == 500000 || m.rope_scaling != RopeScaling::none || m.tie_embeddings;
}

RankCut cut_of(const std::string& name, const ModelConfig& model, const Shape& shape) {
  using enum RankCut::Along;
  if (shape.rank() < 2) return {};
  const bool by_columns = has_cut_columns(name) || (name == meta_words && !has_cut_words(model));
  return {.along = by_columns ? columns : rows};
}

std::vector<MetaItem> items_of(const ModelConfig& model, const TensorAssembler& assembler) {
  std::vector<MetaItem> items;
  for (std::size_t i = 0; i < assembler.targets().size(); ++i) {
    const NamedTensor& tensor = assembler.targets()[i];
    const std::string name = meta_llama_name(tensor.name);
    items.push_back({name, i, cut_of(name, model, tensor.shape)});
  }
  // Meta's programs require a separate head, tied or not.
  const auto tied = std::ranges::find(items, meta_words, &MetaItem::name);
  TRIREME_CHECK(tied != items.end());
  if (model.tie_embeddings) items.push_back({meta_head, tied->target, tied->cut});
  return items;
}

std::string note_of(const ModelConfig& m) {
  const bool scaled = m.rope_scaling != RopeScaling::none;
  std::string note;
  if (const std::int64_t likely = likely_llama_positions(scaled, m.rope_base);
      likely != m.max_positions) {
    note = fmt::format(
        "{} does not record that the model has {} positions; trireme convert assumes {} unless it "
        "is called with --set model.max_positions={}",
        llama_params_file, m.max_positions, likely, m.max_positions);
  }
  if (scaled && m.rope_scaling_factor != 8) {
    add_note(note,
             "Meta's own program always divides frequencies by 8, so it computes different results "
             "with these weights");
  }
  return note;
}

}  // namespace

std::string write_llama_folder(const fs::path& to, const LlamaFolderOptions& options,
                               const TensorAssembler& assembler) {
  const std::string params = llama_params(options.model);
  check_parts(options.model, options.parts);
  const std::vector<MetaItem> items = items_of(options.model, assembler);
  const auto dtype = [&](const MetaItem& item) {
    return options.dtype.value_or(assembler.dtype(item.target));
  };
  TorchDict root;
  for (const MetaItem& item : items) {
    const Shape& shape = assembler.targets()[item.target].shape;
    root.push_back(
        {item.name, {TorchTensor{dtype(item), part_shape(shape, item.cut, options.parts)}}});
  }
  std::vector<fs::path> files;
  for (int rank = 0; rank < options.parts; ++rank)
    files.push_back(to / llama_file_name(static_cast<std::size_t>(rank)));
  RankFiles ranks(files, {root});
  for (const MetaItem& item : items) {
    const std::string& name = assembler.targets()[item.target].name;
    ranks.write(assembler, item.target, dtype(item), item.cut,
                llama_row_order(name, options.model));
  }
  ranks.finish();
  write_file_durably(to / llama_params_file, params);
  return note_of(options.model);
}

}  // namespace trireme
