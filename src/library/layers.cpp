// Public layers as nodes of a graph.
#include "library/layers.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace trireme::v1 {

Layers::Impl::Impl(const FamilyBuilder& b, Graph& g)
    : builder(b),
      graph(g),
      sizes{b.m_.num_layers, b.m_.hidden_size,     b.m_.num_heads,  b.m_.num_kv_heads,
            b.m_.head_dim,   b.m_.ffn_hidden_size, b.m_.seq_length, b.m_.vocab_size},
      site(FamilyBuilder::embedding_site + 1) {}

ValueId Layers::Impl::take(Value value, const char* layer) const {
  if (value.id < 0 || value.id >= graph.value_count())
    fail_input("family \"{}\": the input of {} is not the result of a layer of this part",
               builder.m_.family, layer);
  return value.id;
}

const std::string& Layers::Impl::name(const std::string& name) {
  if (name.empty() || !names.insert(name).second) {
    fail_input("family \"{}\": a part has two layers named \"{}\": names must be unique",
               builder.m_.family, name);
  }
  return name;
}

ValueId Layers::Impl::sample_ids() {
  if (ids == no_value && builder.any_dropout()) ids = builder.sample_ids(graph);
  return ids;
}

void Layers::Impl::check_width(const std::string& name, std::int64_t width) const {
  const int ranks = builder.tp_.size;
  if (width > 0 && width % ranks == 0) return;
  fail_input("family \"{}\": layer {} is {} wide, expected a multiple of parallel.tp = {}",
             builder.m_.family, name, width, ranks);
}

void Layers::Impl::finish(Value result, const char* part) {
  const ValueId made = take(result, part);
  const Shape expected = {builder.local_rows_, builder.m_.hidden_size};
  const trireme::Value& value = graph.value(made);
  if (value.shape != expected || value.role != Role::internal) {
    fail_input("family \"{}\": the {} returns {} {}, expected a result of its layers of {}",
               builder.m_.family, part,
               value.role == Role::internal ? "a value of" : "its input, of", value.shape.text(),
               expected.text());
  }
  graph.set_output(made);
  check_all_used(part);
}

void Layers::Impl::check_all_used(const char* part) const {
  std::vector<bool> used(static_cast<std::size_t>(graph.value_count()));
  if (graph.output() != no_value) used[graph.output()] = true;
  for (auto node = graph.forward.rbegin(); node != graph.forward.rend(); ++node) {
    bool reached = node->op == OpKind::token_loss || graph.output() == no_value;
    for (const ValueId output : node->outputs)
      reached = reached || (output != no_value && used[output]);
    if (!reached) continue;
    for (const ValueId input : node->inputs)
      if (input != no_value) used[input] = true;
  }
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const trireme::Value& value = graph.value(id);
    if (used[id] || (value.role != Role::parameter && value.role != Role::input)) continue;
    fail_input("family \"{}\": the result of the {} does not depend on {}", builder.m_.family, part,
               value.role == Role::input ? "its input"
                                         : "the parameter " + graph.parameters()[value.index].name);
  }
}

const v1::ModelSizes& Layers::sizes() const {
  return impl_->sizes;
}

Value Layers::norm(Value x, const std::string& name) {
  return {impl_->builder.norm(impl_->graph, impl_->take(x, "norm()"), impl_->name(name))};
}

Value Layers::attention(Value x, const std::string& name) {
  Impl& i = *impl_;
  const ValueId from = i.take(x, "attention()");
  return {
      i.builder.attention(i.graph, from, i.sample_ids(), true, {}, i.name(name), i.next_site())};
}

Value Layers::mlp(Value x, const std::string& name) {
  return {impl_->builder.mlp(impl_->graph, impl_->take(x, "mlp()"), impl_->name(name))};
}

Value Layers::add(Value x, Value delta) {
  Impl& i = *impl_;
  const ValueId a = i.take(x, "add()"), b = i.take(delta, "add()");
  return {ops::add(i.graph, a, b, i.sample_ids(), i.builder.site(i.next_site()), i.builder.seq_)};
}

Value Layers::scale(Value x, double factor) {
  return {ops::scale(impl_->graph, impl_->take(x, "scale()"), factor)};
}

Value Layers::wide(Value x, const std::string& name, std::int64_t width, bool halves) {
  const FamilyBuilder& b = impl_->builder;
  const int blocks = halves ? 2 : 1;
  impl_->check_width(name, width);
  return {ColumnLinear{impl_->name(name), b.m_.hidden_size, blocks * width, b.m_.bias,
                       b.m_.init_std, blocks}(impl_->graph, b.tp_, impl_->take(x, "wide()"))};
}

Value Layers::activation(Value x, const std::string& kind) {
  const auto found = find_choice<MlpActivation>(kind);
  if (!found || *found == MlpActivation::by_family) {
    fail_input("family \"{}\": activation(\"{}\"): expected one of {}", impl_->builder.m_.family,
               kind, fmt::join(names_of<MlpActivation>(), ", "));
  }
  return {ops::activation(impl_->graph, impl_->take(x, "activation()"), activation_of(*found))};
}

Value Layers::narrow(Value x, const std::string& name, std::int64_t width) {
  const FamilyBuilder& b = impl_->builder;
  impl_->check_width(name, width);
  return {RowLinear{impl_->name(name), width, b.m_.hidden_size, b.m_.bias, b.deep_std()}(
      impl_->graph, b.tp_, impl_->take(x, "narrow()"))};
}

Value Layers::embed() {
  return {impl_->builder.embed(impl_->graph)};
}

void Layers::predict(Value x) {
  if (std::exchange(impl_->predicted, true))
    fail_input("family \"{}\": predict() is called twice", impl_->builder.m_.family);
  impl_->builder.predict(impl_->graph, impl_->take(x, "predict()"));
}

}  // namespace trireme::v1
