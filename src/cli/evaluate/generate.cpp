// `trireme generate`: continues prompts with a trained model.
#include "cli/evaluate/generate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "cli/commands.h"

namespace trireme::cli {
namespace {

constexpr std::int64_t largest_length = std::int64_t{1} << 24;  // maximum tokens added per call

struct GenerateArguments {
  std::string model;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::int64_t sequences = 1;
  GenerateOptions options;
  bool length_given = false;  // --max-new-tokens is not the default
  bool greedy = false, ignore_eod = false, json = false;
  std::vector<std::string> overrides;
};

std::vector<std::vector<std::int32_t>> encode_prompts(const GenerateArguments& a,
                                                      const Tokenizer& tokenizer) {
  std::vector<std::string> texts = a.prompts;
  if (!a.prompt_file.empty()) texts.push_back(read_file(a.prompt_file, std::uint64_t{1} << 28));
  if (texts.empty()) texts.emplace_back();
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& text : texts) {
    std::vector<std::int32_t> ids;
    tokenizer.encode_prompt(text, ids);
    if (ids.empty()) {
      if (tokenizer.eod_id() < 0) {
        fail_input(
            "the prompt is empty, and the tokenizer has no token that starts or ends a document: "
            "give --prompt TEXT");
      }
      ids.push_back(tokenizer.eod_id());
    }
    for (std::int64_t s = 0; s < a.sequences; ++s) prompts.push_back(ids);
  }
  return prompts;
}

// Returns the number of tokens to add to a prompt of this length. Learned positions limit it: the
// default is reduced to the remaining ones, and an explicit number that is too large is refused.
std::int64_t tokens_to_add(const GenerateArguments& a, const ModelConfig& m, std::int64_t prompt) {
  const std::int64_t asked = a.options.max_new_tokens;
  if (m.position != PositionEncoding::learned || prompt <= m.max_positions - asked) return asked;
  const std::string tokens = counted(prompt, "token");
  const std::string positions = counted(m.max_positions, "learned position");
  if (prompt >= m.max_positions) {
    fail_input("the prompt has {}, and the model has only {}: shorten the prompt", tokens,
               positions);
  }
  const std::int64_t left = m.max_positions - prompt;
  if (a.length_given) {
    fail_input(
        "a prompt of {} and --max-new-tokens {} exceed the model's {}: use --max-new-tokens {} or "
        "fewer",
        tokens, asked, positions, left);
  }
  fmt::print(stderr, "note: at most {} are generated instead of {}, because the model has {}\n",
             counted(left, "token"), asked, positions);
  return left;
}

// End-of-sequence tokens: the end-of-document token of training data, and those of an imported
// model.
std::vector<std::int32_t> stop_ids(const TrainedModel& model, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids = model.imported_end_ids();
  if (tokenizer.eod_id() >= 0) ids.push_back(tokenizer.eod_id());
  return ids;
}

// A model may have more ids than its tokenizer, e.g. a padded vocabulary: these have no text.
std::string text_of(std::vector<std::int32_t> ids, const Tokenizer& tokenizer) {
  std::erase_if(ids, [&](std::int32_t id) { return id >= tokenizer.vocab_size(); });
  return tokenizer.decode(ids, true);
}

void generate(GenerateArguments& a) {
  a.options.sampling.sample = !a.greedy;
  validate(a.options.sampling);
  TrainedModel model(a.model, a.overrides);
  model.require_next_token();
  const Tokenizer& tokenizer = model.tokenizer();
  if (!a.ignore_eod) a.options.stop_ids = stop_ids(model, tokenizer);
  const auto prompts = encode_prompts(a, tokenizer);
  std::int64_t longest = 0;
  for (const auto& prompt : prompts)
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  a.options.max_new_tokens = tokens_to_add(a, model.config().model, longest);
  Generator generator(model, static_cast<std::int64_t>(prompts.size()),
                      longest + a.options.max_new_tokens);
  const auto outputs = generator.generate(prompts, a.options);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string text = text_of(outputs[i], tokenizer);
    if (a.json) {
      const nlohmann::json json = {{"sequence", i},
                                   {"ids", outputs[i]},
                                   {"prompt_tokens", prompts[i].size()},
                                   {"text", text}};
      fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      if (outputs.size() > 1) fmt::print("{}--- {} ---\n", i ? "\n" : "", i + 1);
      fmt::print("{}\n", text);
    }
  }
}

}  // namespace

void print_continuation(const std::string& model, const std::string& prompt,
                        const GenerateOptions& options) {
  GenerateArguments a;
  a.model = model;
  a.prompts = {prompt};
  a.options = options;
  generate(a);
}

void add_generate(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Continue prompts with a trained model");
  auto a = std::make_shared<GenerateArguments>();
  SamplingOptions& sampling = a->options.sampling;
  command->add_option("model", a->model, "Folder of a run or of a checkpoint")->required();
  command->add_option("--prompt", a->prompts, "Text to continue; may be repeated");
  command->add_option("--prompt-file", a->prompt_file, "File whose text to continue");
  auto* length = command
                     ->add_option("--max-new-tokens", a->options.max_new_tokens,
                                  "Maximum number of tokens to generate; the default is reduced to "
                                  "what a model with learned positions can hold")
                     ->check(CLI::Range(std::int64_t{0}, largest_length))
                     ->capture_default_str();
  command->add_option("--num-return-sequences", a->sequences, "Continuations of each prompt")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--temperature", sampling.temperature,
                   "Sampling temperature (above 0); lower values make the text more predictable")
      ->capture_default_str();
  command
      ->add_option("--top-k", sampling.top_k, "Sample from the k most likely tokens; 0: from all")
      ->capture_default_str();
  command
      ->add_option("--top-p", sampling.top_p,
                   "Sample from the most likely tokens that together have this probability")
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", sampling.repetition_penalty,
                   "Values above 1 penalize tokens that have already appeared")
      ->capture_default_str();
  command->add_flag("--greedy", a->greedy, "Always take the most likely token");
  command->add_option("--seed", a->options.seed, "Random seed; equal seeds give equal texts")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--ignore-eod", a->ignore_eod, "Do not stop at the end of a document");
  command->add_flag("--json", a->json, "Print one JSON object per sequence, with its token ids");
  command->add_option("--set", a->overrides,
                      "section.key=value for the saved configuration, e.g. run.precision=fp32");
  command->callback([a, length] {
    a->length_given = length->count() > 0;
    generate(*a);
  });
}

}  // namespace trireme::cli
