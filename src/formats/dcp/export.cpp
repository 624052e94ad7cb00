// Exports tensors of the Hugging Face mapping under the keys of a training state.
#include "formats/dcp/export.h"

#include "base/error.h"
#include "checkpoint/checkpoint_source.h"
#include "checkpoint/layout.h"
#include "formats/dcp/writer.h"
#include "formats/huggingface/config.h"
#include "formats/huggingface/names.h"
#include "formats/llama/names.h"
#include "formats/output_folder.h"
#include "formats/tensor_pieces.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

class DcpExport {
 public:
  DcpExport(CheckpointReader& reader, const fs::path& to, DcpNames names,
            const ExportOptions& options)
      : state_(reader.state()),
        config_(checkpoint_config(reader.folder())),
        titan_(names != DcpNames::huggingface),
        names_(names),
        model_{huggingface_kind(config_.model), config_.model, imported_tokens(state_), ""},
        mapping_(huggingface_mapping(model_)),
        weights_(mapping_.theirs.size()),
        source_(reader, {options.pool, options.progress, options.stopped}),
        options_(options),
        writer_(to, static_cast<std::uint64_t>(options.max_file_bytes)) {
    if (titan_ && !torchtitan_model(model_.kind, model_.model)) {
      fail_input(
          "'{}' contains a {}, but --to torchtitan supports only Llama and Qwen3 without experts or "
          "windows: --to dcp writes Hugging Face's names",
          reader.folder().string(), model_.kind->class_name);
    }
    for (const NamedTensor& tensor : mapping_.theirs) {
      if (!titan_ || !own_name(tensor.name).starts_with("model.")) continue;
      fail_input(
          "'{}' contains the tensor '{}', which torchtitan's {} does not have: --to dcp writes "
          "Hugging Face's names",
          reader.folder().string(), tensor.name, torchtitan_model(model_.kind, model_.model));
    }
    with_states_ = is_adam(config_.optimizer.name) && model_.model.mup_base_hidden_size == 0 &&
                   reader.find(moment_name(mapping_.ours[0].name, 0)) != nullptr;
    for (std::size_t i = 0; i < weights_; ++i)
      if (is_trained(mapping_, i)) trained_.push_back(i);
    if (with_states_) add_moments(mapping_, moment_name);
  }

  // config.json identifies the model for `trireme convert` and for transformers.
  void write_config(const fs::path& folder) const {
    const DType stored = options_.dtype.value_or(main_dtype_);
    const char* const dtype = stored == DType::bf16  ? "bfloat16"
                              : stored == DType::f16 ? "float16"
                                                     : "float32";
    write_file_durably(folder / "config.json", huggingface_config_text(model_, dtype));
  }

  ConversionReport write() {
    const TensorAssembler assembler(mapping_, Direction::to_theirs, source_);
    for (std::size_t i = 0; i < mapping_.theirs.size(); ++i) write_tensor(assembler, i);
    if (with_states_) write_states();
    write_progress();
    writer_.finish();
    ConversionReport report;
    report.kind = titan_ ? fmt::format("torchtitan {}", torchtitan_model(model_.kind, model_.model))
                         : huggingface_class(*model_.kind, model_.model);
    report.tensors = static_cast<std::int64_t>(mapping_.theirs.size());
    report.elements = count_elements(mapping_.theirs);
    report.made_of = static_cast<std::int64_t>(mapping_.ours.size());
    if (!with_states_) {
      report.note =
          model_.model.mup_base_hidden_size > 0
              ? "weights alone: states of model.mup_base_hidden_size, whose learning rates "
                "differ by tensor, are not written"
              : "weights alone: the checkpoint has no states of Adam or AdamW";
    }
    add_note(report.note, huggingface_note(model_.model));
    return report;
  }

 private:
  std::string own_name(const std::string& huggingface) const {
    if (!titan_) return huggingface;
    return names_ == DcpNames::torchtitan ? torchtitan_name(huggingface)
                                          : meta_llama_name(huggingface);
  }
  DcpPath weight_path(const std::string& name) const {
    if (titan_ && names_ != DcpNames::torchtitan_0_1) return {own_name(name)};
    return {"model", own_name(name)};
  }
  DcpPath state_path(const std::string& own, const char* key) const {
    if (titan_) return {"optimizer", fmt::format("state.{}.{}", own, key)};
    return {"optimizer", "state", own, key};
  }
  // Name of the parameter whose optimizer state covers a weight.
  std::string state_name(std::size_t weight) const {
    const std::string own = own_name(mapping_.theirs[weight].name);
    const std::string fused = titan_ ? torchtitan_fused_name(own) : "";
    return fused.empty() ? own : fused;
  }
  // The weight that a tensor of the mapping belongs to: itself, or the one it is a moment of.
  std::size_t weight_of(std::size_t i) const {
    return i < weights_ ? i : trained_[(i - weights_) % trained_.size()];
  }
  // Whether a weight is the first of those that share one parameter's optimizer state.
  bool begins_states(std::size_t weight) const {
    return weight == 0 || state_name(weight) != state_name(weight - 1);
  }

  void write_tensor(const TensorAssembler& assembler, std::size_t i) {
    const std::size_t weight = weight_of(i);
    if (i < weights_) {
      const NamedTensor& tensor = mapping_.theirs[i];
      const DType dtype = options_.dtype.value_or(assembler.dtype(i));
      if (i == 0) main_dtype_ = assembler.dtype(i);
      writer_.begin(weight_path(tensor.name), {dtype, {tensor.shape.begin(), tensor.shape.end()}});
      write_rows(assembler, i, dtype, 0, rows_of(tensor.shape));
      write_tied(tensor.name);
    } else if (begins_states(weight)) {
      write_moment(assembler, i);
    }
  }

  // Writes the moment of one weight or, starting at the first, of all weights of one parameter.
  void write_moment(const TensorAssembler& assembler, std::size_t first) {
    const std::string name = state_name(weight_of(first));
    std::vector<std::size_t> all{first};
    for (std::size_t next = first + 1;
         (next - weights_) % trained_.size() != 0 && state_name(weight_of(next)) == name; ++next)
      all.push_back(next);
    const NamedTensor& tensor = mapping_.theirs[first];
    TorchTensor whole{assembler.dtype(first), {tensor.shape.begin(), tensor.shape.end()}};
    std::int64_t groups = 1;
    if (all.size() > 1) {
      groups = model_.model.num_kv_heads;
      whole.shape[0] = 0;
      for (const std::size_t i : all) whole.shape[0] += rows_of(mapping_.theirs[i].shape);
      std::ranges::sort(all, {}, [&](std::size_t i) {
        const std::string own = own_name(mapping_.theirs[weight_of(i)].name);
        return torchtitan_fused_rows(own, model_.model).first;
      });
    }
    writer_.begin(state_path(name, torch_moment_keys[(first - weights_) / trained_.size()]), whole);
    for (std::int64_t group = 0; group < groups; ++group) {
      for (const std::size_t i : all) {
        const std::int64_t rows = rows_of(mapping_.theirs[i].shape) / groups;
        write_rows(assembler, i, whole.dtype, group * rows, (group + 1) * rows);
      }
    }
  }

  void write_rows(const TensorAssembler& assembler, std::size_t i, DType dtype,
                  std::int64_t first_row, std::int64_t last_row) {
    const std::string& name = mapping_.theirs[weight_of(i)].name;
    const RowOrder order = titan_ ? torchtitan_row_order(name, model_.model) : RowOrder{};
    for_each_piece(assembler, i, dtype, order, first_row, last_row, [&](const TensorPiece& piece) {
      writer_.write(piece.bytes.data(), piece.bytes.size());
    });
  }

  // Models list a tied head as well, and load it under that name.
  void write_tied(const std::string& name) {
    constexpr const char* head = "lm_head.weight";
    if (tied_huggingface_tensor(model_, head) == name) writer_.add_copy(weight_path(head));
  }

  void write_states() {
    const auto at = state_.counters.find("optimizer_steps");
    const auto steps = static_cast<float>(at == state_.counters.end() ? state_.step : at->second);
    for (const std::size_t i : trained_) {
      if (!begins_states(i)) continue;
      writer_.begin(state_path(state_name(i), "step"), {DType::f32, {}});
      writer_.write(&steps, sizeof steps);
    }
    if (titan_) {
      for (const std::size_t i : trained_) {
        if (!begins_states(i)) continue;
        for (const TorchItem& item : settings(decay_of(mapping_.theirs[i]))) {
          writer_.add({"optimizer", fmt::format("param_groups.{}.{}", state_name(i), item.key)},
                      item.value);
        }
      }
      return;
    }
    // Group 0: matrices; group 1: parameters without weight decay.
    std::int64_t group = 0;
    for (const double decay : {config_.optimizer.weight_decay, 0.0}) {
      TorchList names;
      for (const std::size_t i : trained_) {
        if (decay_of(mapping_.theirs[i]) == decay) names.push_back({mapping_.theirs[i].name});
      }
      if (names.empty() || (group > 0 && config_.optimizer.weight_decay == 0)) continue;
      for (const TorchItem& item : settings(decay))
        writer_.add({"optimizer", "param_groups", group, item.key}, item.value);
      writer_.add({"optimizer", "param_groups", group++, "params"}, {names});
    }
  }

  double decay_of(const NamedTensor& tensor) const {
    const OptimizerConfig& o = config_.optimizer;
    const bool is_qk_norm =
        tensor.name.ends_with(".q_norm.weight") || tensor.name.ends_with(".k_norm.weight");
    const bool decays =
        tensor.shape.rank() > 1 || o.decay_vectors || (o.decay_qk_norms && is_qk_norm);
    return decays ? config_.optimizer.weight_decay : 0;
  }

  // Settings of a parameter group of torch.optim.AdamW.
  TorchDict settings(double decay) const {
    const OptimizerConfig& o = config_.optimizer;
    return {{"lr", {o.lr}},
            {"betas", {TorchTuple{{{o.beta1}, {o.beta2}}}}},
            {"eps", {o.eps}},
            {"weight_decay", {decay}},
            {"amsgrad", {false}},
            {"maximize", {false}},
            {"foreach", {}},
            {"capturable", {false}},
            {"differentiable", {false}},
            {"fused", {}},
            {"decoupled_weight_decay", {o.name == OptimizerKind::adamw}}};
  }

  void write_progress() {
    if (!titan_) return writer_.add({"step"}, {state_.step});
    writer_.add({"train_state", "step"}, {state_.step});
    writer_.add({"train_state", "ntokens_seen"}, {state_.consumed_tokens});
    writer_.add({"lr_scheduler", "last_epoch"}, {state_.step});
  }

  const CheckpointState& state_;
  Config config_;
  bool titan_, with_states_ = false;
  DcpNames names_;
  DType main_dtype_ = DType::f32;  // of the stored weights
  HuggingFaceModel model_;
  TensorMapping mapping_;
  std::size_t weights_;               // number of weights, which precede the moments
  std::vector<std::size_t> trained_;  // weights that have moments
  CheckpointSource source_;
  const ExportOptions& options_;
  DcpWriter writer_;
};

}  // namespace

ConversionReport export_dcp(const fs::path& checkpoint, const fs::path& to, DcpNames names,
                            const ExportOptions& options) {
  require_empty(to);
  CheckpointReader reader(checkpoint);
  OutputFolder output(to);
  DcpExport dcp(reader, to, names, options);
  ConversionReport report = dcp.write();
  dcp.write_config(to);
  report.folder = to;
  output.keep();
  return report;
}

}  // namespace trireme
