// Weights, tokens and projections of the golden training runs, from formulas that make_golden.py
// mirrors: every value is the same float on both sides, and none needs to be stored.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme::golden {

// Number `index` of the sequence that belongs to `name`: SplitMix64, seeded by FNV-1a of the name.
constexpr std::uint64_t hash(std::string_view name, std::uint64_t index) {
  std::uint64_t z = 0xcbf29ce484222325;
  for (const char c : name) z = (z ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  z += (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Multiples of 2^-15 in [-1, 1).
constexpr double symmetric(std::string_view name, std::uint64_t index) {
  return (static_cast<double>(hash(name, index) >> 48) - 32768.0) / 32768.0;
}

// Initial value of the parameter `name` at row-major `index`: norm weights 1 +- 0.1, biases +- 0.1,
// all others +- 0.2. Computed in double, rounded once.
constexpr float weight(std::string_view name, std::uint64_t index) {
  const double u = symmetric(name, index);
  if (name.ends_with("norm.weight")) return static_cast<float>(1.0 + 0.1 * u);
  return static_cast<float>((name.ends_with(".bias") ? 0.1 : 0.2) * u);
}

constexpr int kBatch = 4;  // samples of a step
constexpr int kSeq = 16;   // tokens of a sample
constexpr int kVocab = 61;
constexpr int kBatches = 4;      // step s uses batch s % kBatches
constexpr int kProjections = 8;  // per tensor

// Position of token t (0 to kSeq, both included) of `sample` in the sequence of all tokens.
constexpr std::uint64_t place(int step, int sample, int t) {
  return static_cast<std::uint64_t>(((step % kBatches) * kBatch + sample) * (kSeq + 1) + t);
}

// Input at t is token(step, sample, t), its target is token(step, sample, t + 1).
constexpr std::int32_t token(int step, int sample, int t) {
  return static_cast<std::int32_t>((hash("tokens", place(step, sample, t)) >> 32) % kVocab);
}

// Loss weight of the prediction at t in the masked runs: sample 2 never counts, of the others three
// in four positions do.
constexpr float loss_weight(int step, int sample, int t) {
  if (sample == 2) return 0.0f;
  return (hash("mask", place(step, sample, t)) >> 32) % 4 == 0 ? 0.0f : 1.0f;
}

// BERT: sample lengths of 12 to 16, the second segment from position 3 to 9 on, the first and about
// every sixth position predicted.
constexpr std::uint64_t bert_draw(int step, int sample) {
  return hash("bert", place(step, sample, 0)) >> 32;
}
constexpr int bert_length(int step, int sample) {
  return kSeq - static_cast<int>(bert_draw(step, sample) % 5);
}
constexpr std::int32_t bert_input(int step, int sample, int t) {
  return t < bert_length(step, sample) ? token(step, sample, t) : 0;
}
constexpr std::int32_t bert_segment(int step, int sample, int t) {
  return t >= 3 + static_cast<int>(bert_draw(step, sample) % 7) && t < bert_length(step, sample);
}
constexpr float bert_weight(int step, int sample, int t) {
  const bool chosen = (hash("mask", place(step, sample, t)) >> 32) % 6 == 0;
  return t == 1 || (chosen && t < bert_length(step, sample)) ? 1.f : 0.f;
}
constexpr std::int32_t bert_order_label(int step, int sample) {
  return static_cast<std::int32_t>(bert_draw(step, sample) / 64 % 2);
}

// +1 or -1: projection j of a tensor is the sum over its row-major values of sign(j, index) *
// value. Over j, the mean square of the difference of two tensors' projections estimates the square
// of the norm of their difference.
constexpr double sign(int j, std::uint64_t index) {
  return (hash("projection", index) >> (40 + j)) & 1 ? 1.0 : -1.0;
}

}  // namespace trireme::golden
