// `trireme eval`: loss, perplexity and bits per byte of a trained model on text or indexed data.
#include "generate/evaluation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/foreign_bytes.h"
#include "cli/commands.h"
#include "data/indexed_dataset.h"
#include "data/text_documents.h"
#include "tokenizer/utf8.h"

namespace trireme::cli {
namespace {

struct EvalArguments {
  std::string model, text, data;
  DocumentForm documents = DocumentForm::file;
  EvaluationOptions options;
  std::int64_t limit = 0;
  bool json = false;
  std::vector<std::string> overrides;
};

struct Stream {
  std::vector<std::int32_t> ids;
  std::int64_t bytes = 0;
};

// What comes before the first document. A model whose documents open with a token of their own
// (BOS) needs nothing; any other gets the end of an earlier document, as in training, so that the
// first token can be scored too.
std::vector<std::int32_t> before_first_document(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> opening;
  tokenizer.encode_prompt("", opening);
  if (!opening.empty() || tokenizer.eod_id() < 0) return {};
  return {tokenizer.eod_id()};
}

// Documents one after the other as preprocessing writes them, with the token that ends documents
// between them.
Stream read_text(const EvalArguments& a, const Tokenizer& tokenizer) {
  const std::string file = read_file(a.text);
  refuse_unless_text(a.text, file);
  Stream stream;
  stream.bytes = static_cast<std::int64_t>(file.size());
  stream.ids = before_first_document(tokenizer);
  const std::string text = is_valid_utf8(file) ? file : to_valid_utf8(file);
  for_each_document(text, a.documents, [&](std::string_view document) {
    tokenizer.encode_document(document, stream.ids);
    if (tokenizer.eod_id() >= 0 && a.documents != DocumentForm::file)
      stream.ids.push_back(tokenizer.eod_id());
  });
  return stream;
}

// Without a tokenizer the size of the text is not known, and the first token is not scored.
Stream read_indexed(const EvalArguments& a, TrainedModel& model) {
  const IndexedDataset data(a.data);
  const Tokenizer* tokenizer = model.config().data.tokenizer.empty() ? nullptr : &model.tokenizer();
  Stream stream;
  if (tokenizer) stream.ids = before_first_document(*tokenizer);
  for (std::int64_t s = 0; s < data.sequences(); ++s) {
    const std::size_t at = stream.ids.size();
    stream.ids.resize(at + static_cast<std::size_t>(data.length(s)));
    data.read(s, 0, data.length(s), stream.ids.data() + at);
    data.check_ids(s, 0, data.length(s), stream.ids.data() + at, model.config().model.vocab_size);
  }
  if (tokenizer)
    stream.bytes = static_cast<std::int64_t>(tokenizer->decode(stream.ids, true).size());
  return stream;
}

void print_json(const Evaluation& e, std::int64_t step) {
  nlohmann::json json = {
      {"loss", e.loss()}, {"perplexity", e.perplexity()}, {"tokens", e.tokens}, {"step", step}};
  json["bytes"] = e.bytes > 0 ? nlohmann::json(e.bytes) : nullptr;
  json["bits_per_byte"] = e.bytes > 0 ? nlohmann::json(e.bits_per_byte()) : nullptr;
  fmt::print("{}\n", json.dump());
}

void print_text(const Evaluation& e, std::int64_t step) {
  fmt::print("loss {:.4f}  perplexity {:.2f}  ", e.loss(), e.perplexity());
  if (e.bytes > 0) fmt::print("bits per byte {:.4f}  ", e.bits_per_byte());
  fmt::print("({}, ", counted(e.tokens, "token"));
  if (e.bytes > 0) fmt::print("{}, ", counted(e.bytes, "byte"));
  fmt::print("step {})\n", step);
}

void evaluate(const EvalArguments& a) {
  if (a.text.empty() == a.data.empty()) fail_input("give either --text FILE or --data PREFIX");
  TrainedModel model(a.model, a.overrides);
  model.require_next_token();
  const Stream stream = a.text.empty() ? read_indexed(a, model) : read_text(a, model.tokenizer());
  if (stream.ids.size() < 2)
    fail_input("'{}' holds no text to score", a.text.empty() ? a.data : a.text);
  const Evaluation e = evaluate_tokens(model, stream.ids, stream.bytes, a.options);
  a.json ? print_json(e, model.step()) : print_text(e, model.step());
}

}  // namespace

void add_eval(CLI::App& app) {
  const std::vector<std::pair<std::string, DocumentForm>> forms = {
      {"file", DocumentForm::file},
      {"paragraph", DocumentForm::paragraphs},
      {"line", DocumentForm::line}};
  auto* command =
      app.add_subcommand("eval", "Loss, perplexity and bits per byte on text or indexed data");
  auto a = std::make_shared<EvalArguments>();
  command->add_option("model", a->model, "Folder of a run or of a checkpoint")->required();
  command->add_option("--text", a->text, "Text file");
  command->add_option("--documents", a->documents, "How the text file is split into documents")
      ->transform(CLI::CheckedTransformer(forms))
      ->option_text("file|paragraph|line (default: file)");
  command->add_option("--data", a->data,
                      "Prefix of an indexed dataset; without a tokenizer no bits per byte");
  command->add_option("--batch", a->options.batch, "Windows per batch")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--stride", a->options.stride,
                   "Tokens from the start of one window to the next, at most a window; 0: half a "
                   "window")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--json", a->json, "Print the figures as JSON");
  command->add_option("--set", a->overrides, "section.key=value for the saved configuration");
  command->callback([a] { evaluate(*a); });
}

}  // namespace trireme::cli
