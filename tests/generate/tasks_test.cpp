// Tests of evaluation tasks: rows of each format, and scores against the logits of a reference
// implementation.
#include "generate/tasks.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/huggingface/export.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class Tasks : public testing::Test {
 protected:
  Tasks() : folder_(fs::path(testing::TempDir()) / "trireme_tasks") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Tasks() override { fs::remove_all(folder_); }

  fs::path file(const std::string& lines) const {
    std::ofstream(folder_ / "task.jsonl") << lines;
    return folder_ / "task.jsonl";
  }

  TaskRow row(std::string line) const {
    std::ranges::replace(line, '\n', ' ');
    return read_task_file(file(line)).rows.at(0);
  }

  std::string refusal(const std::string& lines) const {
    try {
      read_task_file(file(lines));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

TEST_F(Tasks, RowsOfEachShape) {
  const TaskRow choices =
      row(R"({"context": "A b", "choices": ["c", "dé"], "answer": 1, "id": 7})");
  EXPECT_EQ(choices.context, "A b");
  EXPECT_THAT(choices.continuations, ElementsAre(" c", " dé"));
  EXPECT_THAT(choices.lengths, ElementsAre(1, 2));
  EXPECT_EQ(choices.answer, 1);
  EXPECT_THAT(row(R"({"context": "A", "target": "b"})").continuations, ElementsAre("b"));

  // Values from lm-evaluation-harness 0.4.13.
  const TaskRow hellaswag = row(
      R"({"ind": 4, "activity_label": "Roof [a", "ctx_a": " A man] sits.", "ctx_b": "éCRIT [title] He",
          "endings": ["is [step]  using  wrap. ", "[x]b"], "label": "1", "split": "val"})");
  EXPECT_EQ(hellaswag.context, "Roof sits. Écrit. he");
  EXPECT_THAT(hellaswag.continuations, ElementsAre(" is  using wrap.", " b"));
  EXPECT_EQ(hellaswag.answer, 1);

  const TaskRow arc = row(
      R"({"id": "x", "question": "Why?", "choices": {"text": ["a", "b"], "label": ["1", "2"]},
          "answerKey": "2"})");
  EXPECT_EQ(arc.context, "Question: Why?\nAnswer:");
  EXPECT_THAT(arc.continuations, ElementsAre(" a", " b"));
  EXPECT_EQ(arc.answer, 1);

  const TaskRow lambada = row(R"({"text": "the last  word"})");
  EXPECT_EQ(lambada.context, "the last ");
  EXPECT_THAT(lambada.continuations, ElementsAre(" word"));
}

TEST_F(Tasks, WhiteSpaceAtTheEndOfATextIsThatOfPython) {
  EXPECT_EQ(end_of_text(""), 0u);
  EXPECT_EQ(end_of_text(" \u00a0\x1c"), 0u);
  EXPECT_EQ(end_of_text("a b\u3000\u2003 \x1f\n"), 3u);
  EXPECT_EQ(end_of_text("a\u200b"), 4u);  // not white space, despite its name
}

TEST_F(Tasks, WrongRowsNameTheLine) {
  const std::string good = R"({"context": "a", "choices": ["b", "c"], "answer": 0})";
  EXPECT_THAT(refusal(""), HasSubstr("task.jsonl' has no rows"));
  EXPECT_THAT(refusal(good + "\n\nno"), HasSubstr("task.jsonl:3: is not JSON"));
  EXPECT_THAT(refusal("[1]"), HasSubstr(":1: is not a JSON object"));
  EXPECT_THAT(refusal(R"({"context": "a"})"), HasSubstr("expected those of one of choices: "));
  EXPECT_THAT(refusal(R"({"context": "a", "target": "b", "few_shot": 3})"),
              HasSubstr("\"few_shot\" is not a key of a row of cloze"));
  EXPECT_THAT(refusal(R"({"context": "a", "choices": ["b", "c"], "answer": 2})"),
              HasSubstr("the answer 2 is not one of the 2 choices"));
  EXPECT_THAT(refusal(R"({"context": "a", "choices": ["b", "c"], "answer": "x"})"),
              HasSubstr("\"answer\" is not the index of a choice"));
  EXPECT_THAT(refusal(R"({"context": "a", "choices": ["b", ""], "answer": 0})"),
              HasSubstr("a choice is empty"));
  EXPECT_THAT(refusal(R"({"context": 5, "target": "b"})"),
              HasSubstr("\"context\" is not a string"));
  EXPECT_THAT(refusal(good + "\n" + R"({"text": "a b"})"),
              HasSubstr(":2: is a row of LAMBADA, but the rows before it are of choices"));
  EXPECT_THAT(refusal(R"({"text": "word"})"), HasSubstr("no last word"));
  EXPECT_THAT(
      refusal(R"({"question": "?", "choices": {"text": ["a"], "label": ["A"]}, "answerKey": "B"})"),
      HasSubstr("\"answerKey\" is \"B\", but the labels are A"));
}

// Tests on the reference's logits of a sequence; its token IDs are encoded as numbers.
class TaskCounts : public Tasks {
 protected:
  TaskCounts() {
    const fs::path source = fs::path(TRIREME_TESTS) / "formats/data/hf/llama";
    const json golden = json::parse(read_file(source / "golden.json"));
    golden["ids"][0].get_to(ids_);
    golden["logits"][0].get_to(logits_);
    import_huggingface(source, folder_ / "run", "test", nullptr);
    model_ = std::make_unique<TrainedModel>(
        folder_ / "run", std::vector<std::string>{"run.precision=fp32", "data.tokenizer=null",
                                                  "model.vocab_size=61"});
  }

  double log_probability(std::size_t position, std::int32_t id) const {
    double sum = 0;
    for (const double logit : logits_[position - 1]) sum += std::exp(logit);
    return logits_[position - 1][static_cast<std::size_t>(id)] - std::log(sum);
  }

  std::string text(std::size_t begin, std::size_t end) const {
    return fmt::format("{}", fmt::join(ids_.begin() + static_cast<std::ptrdiff_t>(begin),
                                       ids_.begin() + static_cast<std::ptrdiff_t>(end), " "));
  }

  TaskResult evaluate(const std::string& lines) {
    return evaluate_task(*model_, read_task_file(file(lines)), "task");
  }

  std::vector<std::int32_t> ids_;
  std::vector<std::vector<double>> logits_;
  std::unique_ptr<TrainedModel> model_;
};

TEST_F(TaskCounts, ChoicesByLikelihoodAndByLikelihoodPerCharacter) {
  const std::vector<std::int32_t> choices = {3, 17, 9, 44};
  std::string lines;
  double right = 0, right_by_length = 0, rows = 0;
  for (std::size_t position = 4; position < 20; ++position, ++rows) {
    std::size_t best = 0, best_by_length = 0;
    const auto log = [&](std::size_t i) { return log_probability(position, choices[i]); };
    const auto by_length = [&](std::size_t i) { return log(i) / (choices[i] < 10 ? 1 : 2); };
    for (std::size_t i = 1; i < choices.size(); ++i) {
      if (log(i) > log(best)) best = i;
      if (by_length(i) > by_length(best_by_length)) best_by_length = i;
    }
    right += best == position % 4;
    right_by_length += best_by_length == position % 4;
    lines += fmt::format(
        "{{\"context\": \"{}\", \"choices\": [\"3\", \"17\", \"9\", \"44\"], \"answer\": {}}}\n",
        text(0, position), position % 4);
  }
  const TaskResult result = evaluate(lines);
  EXPECT_EQ(result.rows, 16);
  EXPECT_EQ(result.shortened, 0);
  ASSERT_EQ(result.metrics.size(), 2u);
  EXPECT_EQ(result.metrics[0].value, right / rows);
  EXPECT_EQ(result.metrics[1].value, right_by_length / rows);
  EXPECT_NE(right, right_by_length);
  const double p = right / rows;
  EXPECT_NEAR(result.metrics[0].standard_error.value(), std::sqrt(p * (1 - p) / (rows - 1)), 1e-12);
}

TEST_F(TaskCounts, ContinuationsOfSeveralTokens) {
  std::string lines;
  double sum = 0;
  for (const std::size_t begin : {3, 7, 12}) {
    lines += fmt::format("{{\"context\": \"{}\", \"target\": \" {}\"}}\n", text(0, begin),
                         text(begin, begin + 3));
    for (std::size_t i = begin; i < begin + 3; ++i) sum += log_probability(i, ids_[i]);
  }
  const TaskResult result = evaluate(lines);
  ASSERT_EQ(result.metrics.size(), 2u);
  EXPECT_EQ(result.metrics[1].name, "perplexity");
  EXPECT_NEAR(std::log(result.metrics[1].value), -sum / 3, 1e-4);
}

TEST_F(TaskCounts, LongContextsLoseTheirBeginning) {
  const std::string target = R"(", "target": " 5 6"})";
  const TaskResult whole = evaluate(R"({"context": ")" + text(0, 20) + " 1 2 3" + target);
  EXPECT_EQ(whole.shortened, 0);
  const TaskResult longer = evaluate(R"({"context": "7 8 )" + text(0, 20) + " 1 2 3" + target);
  EXPECT_EQ(longer.shortened, 1);
  EXPECT_EQ(longer.metrics[1].value, whole.metrics[1].value);
  std::string numbers = " 1";
  for (int i = 0; i < 24; ++i) numbers += " 2";
  EXPECT_THROW(evaluate(R"({"context": "7", "target": ")" + numbers + "\"}"), Error);
}

}  // namespace
}  // namespace trireme
