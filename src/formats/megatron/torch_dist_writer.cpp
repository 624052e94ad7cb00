// Groups tensors by Megatron's names and writes each layer and each expert as a part of its own, so
// that a rank reads no more than what it has.
#include "formats/megatron/torch_dist_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "config/families.h"
#include "formats/dcp/writer.h"
#include "formats/megatron/step.h"
#include "formats/megatron/writer.h"
#include "formats/tensor_pieces.h"
#include "tensors/cast.h"
#include "tensors/optimizer_states.h"

namespace trireme {
namespace {

constexpr const char* states_prefix = "optimizer.state.";

// A tensor of the folder, and the targets of the assembler that it consists of: several if it
// stacks the layers.
struct Stored {
  std::string key, alias;  // the alias is a second name, or ""
  std::vector<std::size_t> targets;
  bool stacked = false;
  MegatronCut cut = MegatronCut::none;
  std::int64_t experts = 0;  // number of matrices of experts; 0: none
};

// The place of an object among those of all layers and experts.
struct Shard {
  std::vector<std::int64_t> place, sizes;
};

// Removes the number of the layer: "decoder.layers.3.mlp" becomes "decoder.layers.mlp".
std::string without_layer(std::string key, std::int64_t layer) {
  const std::string number = std::to_string(layer) + ".";
  const std::size_t at = key.find(".layers." + number) + std::string_view(".layers.").size();
  return key.erase(at, number.size());
}

// The name of a norm that is a separate module.
std::string without_fusion(const std::string& key) {
  constexpr std::string_view fused = "mlp.linear_fc1.layer_norm_";
  const std::size_t at = key.find(fused);
  TRIREME_CHECK(at != key.npos);
  return key.substr(0, at) + "pre_mlp_layernorm." + key.substr(at + fused.size());
}

class TorchDistFiles {
 public:
  TorchDistFiles(const fs::path& step, const TorchDistOptions& options,
                 const TensorAssembler& assembler)
      : model_(options.model),
        options_(options),
        assembler_(assembler),
        is_bert_(family_of(model_).architecture == Architecture::encoder),
        stacks_(stacks_layers(model_)),
        writer_(step, options.max_file_bytes) {
    const auto& all = assembler.targets();
    for (std::size_t i = 0; i < all.size(); ++i) target_of_[all[i].name] = i;
    for (std::size_t i = 0; i < all.size() && !all[i].name.starts_with("optimizer."); ++i) place(i);
  }

  void write() {
    for (const Stored& stored : stored_) {
      write_weight(stored);
      if (options_.with_states && has_moments(target(stored.targets[0]).name)) write_states(stored);
    }
    add_extra_states();
    writer_.finish();
  }

 private:
  const NamedTensor& target(std::size_t i) const { return assembler_.targets()[i]; }
  std::string stack() const { return is_bert_ ? "encoder." : "decoder."; }

  bool is_stacked(const MegatronName& name) const {
    return stacks_ && name.layer >= 0 && !name.is_module;
  }
  std::string key_of(const MegatronName& name, MegatronKind kind) const {
    const std::string key = megatron_name_of(name, kind, is_bert_);
    return is_stacked(name) && !key.empty() ? without_layer(key, name.layer) : key;
  }

  void place(std::size_t i) {
    const MegatronName name = split_name(target(i).name);
    const std::string key = key_of(name, MegatronKind::distributed);
    if (key.empty()) {
      fail_input(
          "cannot write a checkpoint of Megatron-Core: its models have no name for the tensor '{}'",
          target(i).name);
    }
    const auto same = std::ranges::find(stored_, key, &Stored::key);
    if (same != stored_.end()) return same->targets.push_back(i);
    Stored stored{key, {}, {i}, is_stacked(name)};
    if (name.layer < 0) stored.cut = megatron_name(key).cut;
    if (name.ours.starts_with("mlp.experts.")) stored.experts = model_.moe.num_experts;
    // With Transformer Engine, the norm before experts is a separate module.
    if (has_experts(name) && name.ours.starts_with("mlp_norm.")) stored.alias = without_fusion(key);
    stored_.push_back(std::move(stored));
  }

  // The block of a module is like that of the last layer.
  bool has_experts(const MegatronName& name) const {
    return name.layer >= 0 &&
           model_.moe.in_layer(name.is_module ? model_.num_layers - 1 : name.layer);
  }

  // Shape of a layer's part of a tensor.
  std::vector<std::int64_t> shape_of(const Stored& stored) const {
    const Shape& whole = target(stored.targets[0]).shape;
    std::vector<std::int64_t> shape(whole.begin(), whole.end());
    if (stored.cut == MegatronCut::words) shape[0] = megatron_vocabulary(model_, 1);
    if (stored.experts > 0) {
      shape[0] /= stored.experts;
      shape.insert(shape.begin(), stored.experts);
    }
    return shape;
  }

  // Writes one tensor for each target: the weights, or the states of them.
  void write(const std::string& key, const Stored& stored, const std::vector<std::size_t>& targets,
             DType dtype) {
    const std::vector<std::int64_t> shape = shape_of(stored);
    TorchTensor whole{dtype, shape};
    if (stored.stacked) whole.shape.insert(whole.shape.begin(), model_.num_layers);
    writer_.begin_parts({key}, whole);
    for (std::size_t layer = 0; layer < targets.size(); ++layer) {
      const std::int64_t rows = rows_of(target(targets[layer]).shape);
      const std::int64_t parts = std::max<std::int64_t>(stored.experts, 1);
      for (std::int64_t part = 0; part < parts; ++part) {
        std::vector<std::int64_t> offsets(shape.size(), 0), sizes = shape;
        if (stored.experts > 0) {
          offsets[0] = part;
          sizes[0] = 1;
        }
        if (stored.stacked) {
          offsets.insert(offsets.begin(), static_cast<std::int64_t>(layer));
          sizes.insert(sizes.begin(), 1);
        }
        writer_.begin_part(offsets, sizes);
        write_rows(targets[layer], dtype, rows / parts * part, rows / parts * (part + 1));
      }
    }
    if (stored.cut == MegatronCut::words) pad(target(targets[0]), shape[0], dtype);
  }

  void write_rows(std::size_t i, DType dtype, std::int64_t begin, std::int64_t end) {
    for_each_piece(assembler_, i, dtype, {}, begin, end, [&](const TensorPiece& piece) {
      writer_.write(piece.bytes.data(), piece.bytes.size());
      const std::size_t row = piece.bytes.size() / static_cast<std::size_t>(piece.rows);
      last_row_.assign(piece.bytes.end() - static_cast<std::ptrdiff_t>(row), piece.bytes.end());
    });
  }

  // The padding repeats the last word, except for the bias over the words, which excludes it; its
  // states are zero.
  void pad(const NamedTensor& tensor, std::int64_t padded_rows, DType dtype) {
    if (tensor.name.starts_with("optimizer.")) {
      std::ranges::fill(last_row_, std::byte{0});
    } else if (tensor.name == "masked_head.bias") {
      cast(DType::f32, reinterpret_cast<const std::byte*>(&never_predicted), dtype,
           last_row_.data(), 1);
    }
    for (std::int64_t row = rows_of(tensor.shape); row < padded_rows; ++row)
      writer_.write(last_row_.data(), last_row_.size());
  }

  DType dtype_of(const Stored& stored) const {
    return options_.dtype.value_or(assembler_.dtype(stored.targets[0]));
  }
  void add_copies(const std::string& prefix, const Stored& stored) {
    writer_.add_copy({prefix + stored.key});
    if (!stored.alias.empty()) writer_.add_copy({prefix + stored.alias});
  }

  void write_weight(const Stored& stored) {
    write(stored.key, stored, stored.targets, dtype_of(stored));
    if (!stored.alias.empty()) writer_.add_copy({stored.alias});
  }

  // The optimizer's weight in fp32, which is the model's if that is stored so, and the moments.
  void write_states(const Stored& stored) {
    const std::string weight = std::string(states_prefix) + "param.";
    if (dtype_of(stored) == DType::f32) {
      add_copies(weight, stored);
    } else {
      write(weight + stored.key, stored, stored.targets, DType::f32);
      if (!stored.alias.empty()) writer_.add_copy({weight + stored.alias});
    }
    for (int which = 0; which < adam_moments; ++which) {
      const std::string moment =
          fmt::format("{}{}.", states_prefix, torch_moment_keys[static_cast<std::size_t>(which)]);
      std::vector<std::size_t> moments;
      for (const std::size_t i : stored.targets)
        moments.push_back(target_of_.at(moment_name(target(i).name, which)));
      write(moment + stored.key, stored, moments, DType::f32);
      if (!stored.alias.empty()) writer_.add_copy({moment + stored.alias});
    }
  }

  // Adds a module's extra state, which holds its fp8 scales. Megatron-Core requires one even
  // without fp8: None.
  void add_extra_state(const std::string& module, const Shard& shard) {
    writer_.add({fmt::format("{}._extra_state/shard_{}_{}", module, fmt::join(shard.place, "."),
                             fmt::join(shard.sizes, "."))},
                {TorchList{{}}});
  }

  void add_extra_states() {
    for (std::int64_t layer = 0; layer < model_.num_layers; ++layer) {
      const std::string layers = stack() + "layers.";
      if (stacks_)
        add_block_states(layers, {{layer}, {model_.num_layers}}, layer);
      else
        add_block_states(fmt::format("{}{}.", layers, layer), {}, layer);
    }
    for (std::int64_t module = 0; module < model_.mtp_layers; ++module) {
      const std::string prefix = fmt::format("mtp.layers.{}.", module);
      for (const char* part : {"enorm", "hnorm", "eh_proj", "final_layernorm"})
        add_extra_state(prefix + part, {{0}, {1}});
      add_block_states(prefix + "transformer_layer.", {}, model_.num_layers - 1);
    }
    add_extra_state(stack() + "final_layernorm", {{0}, {1}});
    if (is_bert_) add_extra_state("output_layer", {{0}, {1}});
  }

  // Adds the extra states of a block's modules, and of each of its experts.
  void add_block_states(const std::string& prefix, const Shard& of_block, std::int64_t layer) {
    const Shard whole = of_block.place.empty() ? Shard{{0}, {1}} : of_block;
    const auto add = [&](std::initializer_list<const char*> modules) {
      for (const char* module : modules) add_extra_state(prefix + module, whole);
    };
    add({"self_attention.linear_qkv", "self_attention.linear_proj",
         "self_attention.core_attention"});
    if (model_.qk_norm) add({"self_attention.q_layernorm", "self_attention.k_layernorm"});
    if (!model_.moe.in_layer(layer)) return add({"mlp.linear_fc1", "mlp.linear_fc2"});
    add({"pre_mlp_layernorm"});
    if (model_.moe.shared_ffn_hidden_size > 0)
      add({"mlp.shared_experts.linear_fc1", "mlp.shared_experts.linear_fc2"});
    for (std::int64_t expert = 0; expert < model_.moe.num_experts; ++expert) {
      Shard one = of_block;
      one.place.push_back(expert);
      one.sizes.push_back(model_.moe.num_experts);
      add_extra_state(prefix + "mlp.experts.experts.linear_fc1", one);
      add_extra_state(prefix + "mlp.experts.experts.linear_fc2", one);
    }
  }

  const ModelConfig& model_;
  const TorchDistOptions& options_;
  const TensorAssembler& assembler_;
  bool is_bert_, stacks_;
  DcpWriter writer_;
  std::map<std::string, std::size_t> target_of_;  // by name
  std::vector<Stored> stored_;
  std::vector<std::byte> last_row_;
};

}  // namespace

bool stacks_layers(const ModelConfig& model) {
  for (std::int64_t layer = 1; layer < model.num_layers; ++layer)
    if (model.moe.in_layer(layer) != model.moe.in_layer(0)) return false;
  return true;
}

void write_torch_dist_folder(const fs::path& to, const TorchDistOptions& options,
                             const TensorAssembler& assembler) {
  const std::string tracker =
      options.with_states ? std::to_string(options.iteration) : std::string("release");
  const fs::path step =
      to / (options.with_states ? fmt::format("iter_{:07}", options.iteration) : tracker);
  make_folders(step);
  TorchDistFiles(step, options, assembler).write();
  TorchWriter(step / "common.pt", {options.common}).finish();
  write_file_durably(step / "metadata.json",
                     "{\"sharded_backend\": \"torch_dist\", \"sharded_backend_version\": 1, "
                     "\"common_backend\": \"torch\", \"common_backend_version\": 1}");
  write_file_durably(to / megatron_tracker_file, tracker);
}

}  // namespace trireme
