// The builder behind the public layers API: a decoder builder whose parts a user-defined family
// assembles.
#pragma once

#include <trireme/model.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "model/gpt.h"

namespace trireme {

class FamilyBuilder final : public GptBuilder {
 public:
  FamilyBuilder(const ModelConfig& model, const BuildOptions& options, bool dropout,
                std::shared_ptr<const v1::Family> family)
      : GptBuilder(model, options, dropout), family_(std::move(family)) {}

  std::unique_ptr<Graph> embedding() const override;
  BlockKind block_kind(std::int64_t layer) const override {
    return {.added = family_->kind_of(layer)};
  }
  std::unique_ptr<Graph> block(const BlockKind& kind) const override;
  std::unique_ptr<Graph> head() const override;

 private:
  friend class v1::Layers;
  friend struct v1::Layers::Impl;

  const std::shared_ptr<const v1::Family> family_;
};

// State while one part is being described.
struct v1::Layers::Impl {
  Impl(const FamilyBuilder& b, Graph& g);

  // Rejects a value that does not belong to this part.
  ValueId take(Value value, const char* layer) const;
  // Rejects a name that is already in use, otherwise returns it.
  const std::string& name(const std::string& name);
  // Sample ids, if dropout is used.
  ValueId sample_ids();
  // Returns a new site for the next dropout.
  std::uint32_t next_site() { return site++; }
  // Rejects a width that the tensor-parallel size does not divide.
  void check_width(const std::string& name, std::int64_t width) const;
  // Makes `result` the part's result; rejects shapes other than [rows, hidden].
  void finish(Value result, const char* part);
  // Rejects layers whose results do not contribute to the part's result.
  void check_all_used(const char* part) const;

  const FamilyBuilder& builder;
  Graph& graph;
  ModelSizes sizes;
  std::set<std::string> names;
  ValueId ids = no_value;
  std::uint32_t site;
  bool predicted = false;
};

}  // namespace trireme
