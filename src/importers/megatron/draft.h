// A translation in progress: the given flags and the settings decided so far.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "importers/megatron/command_line.h"

namespace trireme::megatron {

// Origins of values that no flag gives.
inline constexpr const char* kDefault = "Megatron's default";
inline constexpr const char* kLatent = "--multi-latent-attention";

class Draft {
 public:
  Draft(const TranslateOptions& options, CommandLine& line, Complaints& complaints,
        Translation& translation)
      : options_(options), line_(line), complaints_(complaints), translation_(translation) {}

  Program program() const { return options_.program; }
  bool is_of_a_checkpoint() const { return options_.model_only; }
  std::int64_t ranks() const { return options_.ranks; }
  CommandLine& line() { return line_; }
  Complaints& complaints() { return complaints_; }

  bool has(const std::string& flag) const { return line_.flags.contains(flag); }
  // The (last) value; "" if the flag is absent.
  std::string value(const std::string& flag) const;
  // The value of an integer flag, or `otherwise`.
  std::int64_t integer(const std::string& flag, std::int64_t otherwise) const;
  double number(const std::string& flag, double otherwise) const;

  // Adds a flag as if it had been given.
  void give(const std::string& flag, const std::string& value);
  void give(const std::string& flag, std::vector<std::string> values);

  // `value` is TOML; a later call for the same key wins.
  void set(const std::string& key, const std::string& value, const std::string& origin);
  void set_text(const std::string& key, const std::string& text, const std::string& origin);
  void note(const std::string& flag, const std::string& text);
  // Complains about a flag with a different effect than in Megatron, unless the user accepted it
  // with an override of its key, which must already be set.
  void ask(const std::string& flag, const std::string& text, const std::string& key);
  // Complains about required flags that are missing.
  void miss(const std::string& flags);

  // Complains if both flags were given and removes the second. Returns whether they were.
  bool contradicts(const std::string& flag, const std::string& other, const std::string& why);

 private:
  const TranslateOptions& options_;
  CommandLine& line_;
  Complaints& complaints_;
  Translation& translation_;
  std::map<std::string, std::size_t> index_;  // index into translation_.settings by key
};

// Text of a file named by a flag; nullopt if it does not exist.
std::optional<std::string> text_of_file(const TranslateOptions& options, const std::string& path);

// The rules in execution order. The first three only modify the given flags; then flags that map to
// a single key become settings, before the remaining rules.
void read_deepspeed(Draft& draft, const TranslateOptions& options);
// Handles keys of the DeepSpeed file that are not in `known` or nested below a known key: each
// passes with a note or causes a complaint.
void read_deepspeed_rest(Draft& draft, const std::string& path, const nlohmann::json& json,
                         std::span<const std::string_view> known);
// Translates its section curriculum_learning to [curriculum]; `path` names the file, "" means no
// file. Complains about contradictions to --curriculum-learning-legacy and about values that
// [curriculum] cannot express.
void read_curriculum(Draft& draft, const std::string& path, const nlohmann::json& json);
// Reads files with the values of --data-path or of --train-data-path and related flags.
void read_blend_files(Draft& draft, const TranslateOptions& options);
// Translates --hybrid-layer-pattern to the number of layers, those with experts, and the stages.
void read_hybrid_pattern(Draft& draft);
void reconcile(Draft& draft);
void translate_model(Draft& draft);
// RoPE scaling of ordinary attention, with model.position = `positions`, and of latent attention.
void scale_rope(Draft& draft, const std::string& positions);
void scale_latent_rope(Draft& draft, std::int64_t head_dim);
bool is_yarn(const Draft& draft);
void translate_latent(Draft& draft);
void translate_width(Draft& draft);
void translate_experts(Draft& draft);
void translate_fp8(Draft& draft);
void translate_run(Draft& draft);
void translate_optimizer(Draft& draft);
void translate_checkpoint(Draft& draft);
void translate_parallel(Draft& draft);
// Adds a note for each flag that no rule read because another flag is missing.
void note_unread(Draft& draft, const Translation& done);

}  // namespace trireme::megatron
