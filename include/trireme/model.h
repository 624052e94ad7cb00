// Model families of a program's own, made from the layers of the built-in ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <trireme/export.h>

namespace trireme::v1 {

// A matrix in the graph of one part of a model: a number that only the Layers know that gave it.
// Nothing is computed when a layer is called: the calls describe the graph, which is then
// differentiated, planned and run, on any device and any layout.
struct Value {
  std::int32_t id = -1;
};

// Sizes of the model, as configured.
struct ModelSizes {
  std::int64_t num_layers, hidden_size, num_heads, num_kv_heads, head_dim, ffn_hidden_size;
  std::int64_t seq_length, vocab_size;
};

// What a part of a model is made of. rows = train.micro_batch_size x model.seq_length, or a rank's
// share of them; between layers values are [rows, hidden_size]. Layers cut themselves over tensor-
// and context-parallel ranks as parallel.tp and cp say. Parameters are called "NAME.weight" and
// "NAME.bias" in checkpoints, after "layers.7." in block 7. Two layers of a part have different
// names: refused otherwise, as are values of another part and shapes that do not fit (bad_input).
class TRIREME_API Layers {
 public:
  const ModelSizes& sizes() const;

  // LayerNorm or RMSNorm, by model.norm.
  Value norm(Value x, const std::string& name);
  // Causal self-attention with its projections, by num_heads, position, attention_dropout and the
  // other keys of [model]: parameters NAME.qkv and NAME.out.
  Value attention(Value x, const std::string& name = "attention");
  // Two linear layers and model.activation between them: parameters NAME.up and NAME.down.
  Value mlp(Value x, const std::string& name = "mlp");
  // x + delta, with dropout of delta by model.hidden_dropout.
  Value add(Value x, Value delta);
  Value scale(Value x, double factor);

  // A pair for what lies between two linear layers: wide() makes [rows, width] of [rows, hidden],
  // and narrow() makes [rows, hidden] of that. Tensor-parallel ranks cut the width, which they must
  // divide; between the two only activation() fits. `halves`: for the two parts of swiglu and
  // geglu, each `width` wide, of which activation() makes [rows, width].
  Value wide(Value x, const std::string& name, std::int64_t width, bool halves = false);
  Value activation(Value x, const std::string& kind);  // as in model.activation
  Value narrow(Value x, const std::string& name, std::int64_t width);

  // The embedding of tokens and positions, by position, embedding_norm and the other keys.
  Value embed();
  // The last norm, the logits and the loss. Once, at the end of the head.
  void predict(Value x);

  struct Impl;
  explicit Layers(Impl& impl) : impl_(&impl) {}  // the library's own

 private:
  Impl* impl_;
};

// A family: how its parts are put together. Each function describes the same graph whenever it is
// called, and it is called several times, before training and in it.
class TRIREME_API Family {
 public:
  virtual ~Family();

  // One block of the model: x and the result are [rows, hidden_size].
  virtual Value block(Layers& layers, Value x, int kind) const = 0;
  // Blocks may be of several kinds, numbered from 0.
  virtual int kind_of(std::int64_t /*layer*/) const { return 0; }
  // The rest; by default embed() and predict() alone.
  virtual Value embedding(Layers& layers) const;
  virtual void head(Layers& layers, Value x) const;
};

// As long as it lives, configurations may say model.family = NAME. Where they say nothing else,
// keys of [model] have the defaults of the family `like`: "gpt" or "llama". It must outlive what is
// made of such configurations; checkpoints need it again to be trained on, and `trireme` itself,
// which does not know the family, refuses them. Refused (bad_input): a name that is taken.
class TRIREME_API RegisteredFamily {
 public:
  RegisteredFamily(std::string name, std::shared_ptr<const Family> family,
                   const std::string& like = "llama");
  ~RegisteredFamily();
  RegisteredFamily(const RegisteredFamily&) = delete;
  RegisteredFamily& operator=(const RegisteredFamily&) = delete;

 private:
  std::string name_;
};

}  // namespace trireme::v1
