// Adapts public datasets: batch rows as samples, with validation of user-written data.
#include <trireme/data.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "library/impl.h"

namespace trireme {
namespace {

class GivenDataset final : public Dataset {
 public:
  GivenDataset(std::shared_ptr<const v1::Dataset> dataset, const Config& config)
      : dataset_(std::move(dataset)),
        seq_length_(config.model.seq_length),
        vocab_size_(config.model.vocab_size),
        own_positions_(config.data.reset_position_ids),
        own_borders_(config.data.reset_attention_mask),
        has_modules_(config.model.mtp_layers > 0) {}

  std::int64_t size() const override { return dataset_->size(); }
  std::int64_t seq_length() const override { return seq_length_; }
  std::vector<SamplePart> parts(std::int64_t) const override { return {}; }
  std::uint64_t order_key() const override {
    return hash64(fmt::format("{} {}", dataset_->size(), dataset_->identity()));
  }

  void fill(std::int64_t index, const BatchRow& row) const override {
    const auto n = static_cast<std::size_t>(seq_length_);
    v1::Sample sample{{row.tokens, n},
                      {row.targets, n},
                      {row.loss_weights, n},
                      {row.positions, n},
                      {row.first_visible, n}};
    dataset_->fill(index, sample);
    for (std::size_t i = 0; i < n; ++i) check(index, row, static_cast<std::int32_t>(i));
  }

 private:
  // Kernels rely on validated inputs.
  void check(std::int64_t index, const BatchRow& row, std::int32_t i) const {
    const auto refuse = [&](const char* what, auto found, const std::string& expected) {
      fail_input("sample {} of the given dataset: {} at position {} is {}, expected {}", index,
                 what, i, found, expected);
    };
    const auto check_id = [&](const char* what, std::int32_t id) {
      if (id < 0 || id >= vocab_size_)
        refuse(what, id, fmt::format("0 to {}, for model.vocab_size", vocab_size_ - 1));
    };
    check_id("the token", row.tokens[i]);
    check_id("the target", row.targets[i]);
    if (has_modules_ && i + 1 < seq_length_ && row.targets[i] != row.tokens[i + 1])
      refuse(
          "the target", row.targets[i],
          fmt::format("{}: modules of model.mtp_layers read the next token there, even if the loss "
                      "weight is 0",
                      row.tokens[i + 1]));
    const float weight = row.loss_weights[i];
    if (weight != 0 && weight != 1) refuse("the loss weight", weight, "0 or 1");
    const std::int32_t position = row.positions[i];
    if (!own_positions_ && position != i)
      refuse("the number of the position", position,
             fmt::format("{}: other values require data.reset_position_ids = true", i));
    if (position < 0 || position >= seq_length_)
      refuse("the number of the position", position, fmt::format("0 to {}", seq_length_ - 1));
    const std::int32_t first = row.first_visible[i];
    if (!own_borders_ && first != 0)
      refuse("the first visible position", first,
             "0: other values require data.reset_attention_mask = true");
    if (first < 0 || first > i)
      refuse("the first visible position", first, fmt::format("0 to {}", i));
  }

  std::shared_ptr<const v1::Dataset> dataset_;
  std::int64_t seq_length_, vocab_size_;
  bool own_positions_, own_borders_, has_modules_;
};

}  // namespace

std::shared_ptr<const Dataset> adapt_dataset(std::shared_ptr<const v1::Dataset> dataset,
                                             const Config& config) {
  return std::make_shared<GivenDataset>(std::move(dataset), config);
}

namespace v1 {

Dataset::~Dataset() = default;

void Sample::predict_next(std::span<const std::int32_t> text) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool predicts = i + 1 < text.size();
    tokens[i] = i < text.size() ? text[i] : 0;
    targets[i] = predicts ? text[i + 1] : 0;
    loss_weights[i] = predicts ? 1.f : 0.f;
  }
}

}  // namespace v1
}  // namespace trireme
