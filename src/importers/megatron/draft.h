// A translation in progress: the flags given, and the settings decided so far.
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

// Where a value comes from that no flag gives.
inline constexpr const char* kDefault = "Megatron's default";
inline constexpr const char* kLatent = "--multi-latent-attention";

class Draft {
 public:
  Draft(const TranslateOptions& options, CommandLine& line, Complaints& complaints,
        Translation& translation)
      : options_(options), line_(line), complaints_(complaints), translation_(translation) {}

  Program program() const { return options_.program; }
  bool is_of_a_checkpoint() const { return options_.model_only; }
  CommandLine& line() { return line_; }
  Complaints& complaints() { return complaints_; }

  bool has(const std::string& flag) const { return line_.flags.contains(flag); }
  // The (last) value; "" where the flag is absent.
  std::string value(const std::string& flag) const;
  // The value of an integer flag, or `otherwise`.
  std::int64_t integer(const std::string& flag, std::int64_t otherwise) const;
  double number(const std::string& flag, double otherwise) const;

  // Another flag, as if it had been given.
  void give(const std::string& flag, const std::string& value);
  void give(const std::string& flag, std::vector<std::string> values);

  // `value` is TOML; a later call for the same key wins.
  void set(const std::string& key, const std::string& value, const std::string& origin);
  void set_text(const std::string& key, const std::string& text, const std::string& origin);
  void note(const std::string& flag, const std::string& text);
  // Complains about a flag that computes something else here than in Megatron, unless the user has
  // agreed by an override of the key, which has been set.
  void ask(const std::string& flag, const std::string& text, const std::string& key);
  // Complains about required flags that are missing.
  void miss(const std::string& flags);

  // Complains about flags that were given together, and takes the second away. True if they were.
  bool contradicts(const std::string& flag, const std::string& other, const std::string& why);

 private:
  const TranslateOptions& options_;
  CommandLine& line_;
  Complaints& complaints_;
  Translation& translation_;
  std::map<std::string, std::size_t> index_;  // key: place in translation_.settings
};

// The text of a file that a flag names, or nothing where it is not there.
std::optional<std::string> text_of_file(const TranslateOptions& options, const std::string& path);

// The rules, in the order in which they run. The first three only change the given flags; then
// flags that correspond to one key become settings, before the others.
void read_deepspeed(Draft& draft, const TranslateOptions& options);
// The keys of its file that are not among `known`, nor below one of them: each passes with a note,
// or is a complaint.
void read_deepspeed_rest(Draft& draft, const std::string& path, const nlohmann::json& json,
                         std::span<const std::string_view> known);
// Its section curriculum_learning as our [curriculum]; `path` names the file, and "" means that
// there is none. Complains where --curriculum-learning-legacy says otherwise, and about what
// [curriculum] cannot express.
void read_curriculum(Draft& draft, const std::string& path, const nlohmann::json& json);
// Files that hold what --data-path or --train-data-path and its relatives would be given.
void read_blend_files(Draft& draft, const TranslateOptions& options);
void reconcile(Draft& draft);
void translate_model(Draft& draft);
void translate_latent(Draft& draft);
void translate_experts(Draft& draft);
void translate_fp8(Draft& draft);
void translate_run(Draft& draft);
void translate_optimizer(Draft& draft);
void translate_checkpoint(Draft& draft);
void translate_parallel(Draft& draft);
// A note about each flag that none of these has read, for want of another one.
void note_unread(Draft& draft, const Translation& done);

}  // namespace trireme::megatron
