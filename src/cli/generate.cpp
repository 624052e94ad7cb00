// `trireme generate`: continues prompts with a trained model.
#include "generate/generator.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "cli/commands.h"

namespace trireme::cli {
namespace {

struct GenerateArguments {
  std::string model;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::int64_t sequences = 1;
  GenerateOptions options;
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
    tokenizer.encode(text, ids);
    if (ids.empty()) {
      if (tokenizer.eod_id() < 0)
        fail_input("the prompt is empty and the tokenizer has no token that begins a text");
      ids.push_back(tokenizer.eod_id());
    }
    for (std::int64_t s = 0; s < a.sequences; ++s) prompts.push_back(ids);
  }
  return prompts;
}

void check_room(const ModelConfig& m, std::int64_t prompt, std::int64_t more) {
  if (m.position != "learned" || prompt <= m.max_positions - more) return;
  if (prompt >= m.max_positions) {
    fail_input("the prompt has {}; the model has {} and can add none", counted(prompt, "token"),
               counted(m.max_positions, "learned position"));
  }
  fail_input(
      "a prompt of {} and --max-new-tokens {} do not fit into the model's {}: give "
      "--max-new-tokens {} or fewer",
      counted(prompt, "token"), more, counted(m.max_positions, "learned position"),
      m.max_positions - prompt);
}

void generate(GenerateArguments& a) {
  a.options.sampling.sample = !a.greedy;
  validate(a.options.sampling);
  TrainedModel model(a.model, a.overrides);
  model.require_next_token();
  const Tokenizer& tokenizer = model.tokenizer();
  if (!a.ignore_eod && tokenizer.eod_id() >= 0) a.options.stop_ids.push_back(tokenizer.eod_id());
  auto prompts = encode_prompts(a, tokenizer);
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  check_room(model.config().model, static_cast<std::int64_t>(longest), a.options.max_new_tokens);
  Generator generator(model, static_cast<std::int64_t>(prompts.size()),
                      static_cast<std::int64_t>(longest) + a.options.max_new_tokens);
  const auto outputs = generator.generate(prompts, a.options);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string text = tokenizer.decode(outputs[i], true);
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

void add_generate(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Continue prompts with a trained model");
  auto a = std::make_shared<GenerateArguments>();
  SamplingOptions& sampling = a->options.sampling;
  command->add_option("model", a->model, "folder of a run or of a checkpoint")->required();
  command->add_option("--prompt", a->prompts, "text to continue; may be repeated");
  command->add_option("--prompt-file", a->prompt_file, "file whose text is to be continued");
  command->add_option("--max-new-tokens", a->options.max_new_tokens, "tokens to add at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--num-return-sequences", a->sequences, "continuations of each prompt")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--temperature", sampling.temperature, "above 0; lower is safer")
      ->capture_default_str();
  command->add_option("--top-k", sampling.top_k, "keep the k likeliest tokens; 0: all")
      ->capture_default_str();
  command
      ->add_option("--top-p", sampling.top_p,
                   "keep the likeliest tokens of this probability together")
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", sampling.repetition_penalty,
                   "above 1 discourages tokens that stood before")
      ->capture_default_str();
  command->add_flag("--greedy", a->greedy, "always take the likeliest token");
  command->add_option("--seed", a->options.seed, "of the draws; equal seeds give equal texts")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--ignore-eod", a->ignore_eod, "do not stop at the end of a document");
  command->add_flag("--json", a->json, "one JSON object per sequence, with its token ids");
  command->add_option("--set", a->overrides,
                      "section.key=value for the saved configuration, e.g. run.precision=fp32");
  command->callback([a] { generate(*a); });
}

}  // namespace trireme::cli
