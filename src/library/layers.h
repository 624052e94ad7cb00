// The builder behind the public layers: one of the decoders', whose parts a program's family puts
// together.
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

// One part that is being described.
struct v1::Layers::Impl {
  Impl(const FamilyBuilder& b, Graph& g);

  // Refuses a value that this part does not have.
  ValueId take(Value value, const char* layer) const;
  // Refuses a name that was used, and gives it back.
  const std::string& name(const std::string& name);
  // Numbers of the samples, where something drops.
  ValueId sample_ids();
  // A place of its own for what drops next.
  std::uint32_t next_site() { return site++; }
  // Refuses a width that tensor-parallel ranks cannot share.
  void check_width(const std::string& name, std::int64_t width) const;
  // Makes `result` the part's; refuses what is not [rows, hidden].
  void finish(Value result, const char* part);
  // Refuses layers whose results do not reach the part's result.
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
