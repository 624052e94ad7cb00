// Registry of user-defined families, and their parts as graphs.
#include <trireme/model.h>

#include <map>
#include <mutex>

#include "base/error.h"
#include "config/families.h"
#include "library/impl.h"
#include "library/layers.h"

namespace trireme {
namespace {

using Families = std::map<std::string, std::shared_ptr<const v1::Family>>;
std::mutex families_mutex;

// Protected by the mutex.
Families& families() {
  static Families all;
  return all;
}

std::unique_ptr<Builder> make_family_builder(const ModelConfig& model, const BuildOptions& options,
                                             bool dropout) {
  const std::lock_guard lock(families_mutex);
  return std::make_unique<FamilyBuilder>(model, options, dropout, families().at(model.family));
}

constexpr ArchitectureDefinition of_programs{make_family_builder, next_token_losses};

}  // namespace

std::unique_ptr<Graph> FamilyBuilder::embedding() const {
  auto graph = new_graph();
  v1::Layers::Impl impl(*this, *graph);
  v1::Layers layers(impl);
  impl.finish(family_->embedding(layers), "embedding");
  return graph;
}

std::unique_ptr<Graph> FamilyBuilder::block(const BlockKind& kind) const {
  auto graph = new_graph();
  v1::Layers::Impl impl(*this, *graph);
  v1::Layers layers(impl);
  impl.finish(family_->block(layers, {activations(*graph)}, kind.added), "block");
  return graph;
}

std::unique_ptr<Graph> FamilyBuilder::head() const {
  auto graph = new_graph();
  v1::Layers::Impl impl(*this, *graph);
  v1::Layers layers(impl);
  family_->head(layers, {activations(*graph)});
  if (!impl.predicted) fail_input("family \"{}\": its head does not call predict()", m_.family);
  impl.check_all_used("head");
  return graph;
}

namespace v1 {

Family::~Family() = default;

Value Family::embedding(Layers& layers) const {
  return layers.embed();
}

void Family::head(Layers& layers, Value x) const {
  layers.predict(x);
}

RegisteredFamily::RegisteredFamily(std::string name, std::shared_ptr<const Family> family,
                                   const std::string& like)
    : name_(std::move(name)) {
  at_the_border([&] {
    if (!family) fail_input("family \"{}\": no family was given", name_);
    set_added_architecture(of_programs);
    add_family(name_, like);
  });
  const std::lock_guard lock(families_mutex);
  families()[name_] = std::move(family);
}

RegisteredFamily::~RegisteredFamily() {
  remove_family(name_);
  const std::lock_guard lock(families_mutex);
  families().erase(name_);
}

}  // namespace v1
}  // namespace trireme
