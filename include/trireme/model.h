// User-defined model families, built from the layers of the built-in families.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <trireme/export.h>

namespace trireme::v1 {

// A symbolic matrix in the graph of one part of a model, valid only for the Layers that returned
// it. Calling a layer computes nothing: the calls describe the graph, which is then differentiated,
// planned and executed, on any device and layout.
struct Value {
  std::int32_t id = -1;
};

// Configured sizes of the model.
struct ModelSizes {
  std::int64_t num_layers, hidden_size, num_heads, num_kv_heads, head_dim, ffn_hidden_size;
  std::int64_t seq_length, vocab_size;
};

// Layers for one part of a model. rows = train.micro_batch_size x model.seq_length, or a rank's
// share of them; values between layers are [rows, hidden_size]. Layers are sharded over tensor- and
// context-parallel ranks by parallel.tp and cp. Checkpoints name parameters "NAME.weight" and
// "NAME.bias", with the prefix "layers.7." in block 7. Throws bad_input for equal names of two
// layers in a part, values of another part, and shapes that do not match.
class TRIREME_API Layers {
 public:
  const ModelSizes& sizes() const;

  // LayerNorm or RMSNorm, by model.norm.
  Value norm(Value x, const std::string& name);
  // Causal self-attention with its projections, configured by num_heads, position,
  // attention_dropout and the other keys of [model]: parameters NAME.qkv and NAME.out.
  Value attention(Value x, const std::string& name = "attention");
  // Two linear layers with model.activation between them: parameters NAME.up and NAME.down.
  Value mlp(Value x, const std::string& name = "mlp");
  // Residual connection: x + delta, with dropout of delta by model.hidden_dropout.
  Value add(Value x, Value delta);
  Value scale(Value x, double factor);

  // A pair of linear layers: wide() maps [rows, hidden] to [rows, width], and narrow() maps it back
  // to [rows, hidden]. The width is sharded over tensor-parallel ranks and must be a multiple of
  // their number; between the two, only activation() is possible. `halves`: wide() returns the two
  // parts of swiglu or geglu, each `width` wide, of which activation() makes [rows, width].
  Value wide(Value x, const std::string& name, std::int64_t width, bool halves = false);
  Value activation(Value x, const std::string& kind);  // values of model.activation
  Value narrow(Value x, const std::string& name, std::int64_t width);

  // Embedding of tokens and positions, by position, embedding_norm and the other keys.
  Value embed();
  // Final norm, logits and loss. Call it once, at the end of the head.
  void predict(Value x);

  struct Impl;
  explicit Layers(Impl& impl) : impl_(&impl) {}  // internal

 private:
  Impl* impl_;
};

// A family: how its parts are assembled. The functions are called several times, before and during
// training, and must describe the same graph each time.
class TRIREME_API Family {
 public:
  virtual ~Family();

  // One transformer block: x and the result are [rows, hidden_size].
  virtual Value block(Layers& layers, Value x, int kind) const = 0;
  // Kind of a block, numbered from 0, if blocks differ.
  virtual int kind_of(std::int64_t /*layer*/) const { return 0; }
  // First and last part; by default only embed() and predict().
  virtual Value embedding(Layers& layers) const;
  virtual void head(Layers& layers, Value x) const;
};

// While this object exists, configurations may have model.family = NAME. Keys of [model] that they
// do not set have the defaults of the family `like`: "gpt" or "llama". The object must outlive all
// that is created from such configurations. Training from their checkpoints needs the family again;
// the program `trireme` does not know it and rejects them. Throws bad_input for a taken name.
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
