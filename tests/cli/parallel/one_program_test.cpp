// Tests that a run matches its plan, as counted between the program and MPI, and between the
// program and the system: bytes of a step's messages by kind, and the memory of the regions.
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>

#include "jobs.h"

namespace trireme::testing_cli {
namespace {

using Bytes = std::map<std::string, double>;

class OneProgram : public Jobs {
 protected:
  void SetUp() override {
    Jobs::SetUp();
    if (std::string(TRIREME_TEST_MPI_COUNTS).empty())
      GTEST_SKIP() << "MPI was not found: its calls are not counted";
  }

  // Sizes are divisible: otherwise some ranks send one element more than others, while a plan gives
  // the mean.
  std::string settings_of(const Layout& layout) const {
    return layout.settings +
           " model.num_layers=4 model.hidden_size=128 model.seq_length=64 data.split=100,0,0"
           " train.eval_iters=0 optimizer.warmup_iters=0";
  }

  // The counts of one rank in a run of this many steps.
  struct Counts {
    Bytes sent;  // bytes by kind
    double received = 0, sent_in_all = 0, mapped = 0;
    long others = 0;
  };
  std::vector<Counts> count(const Layout& layout, int steps) const {
    Program program(job_arguments("run", {layout.ranks, settings_of(layout)},
                                  "train.iters=" + std::to_string(steps)),
                    path("run.out"),
                    {{"TRIREME_THREADS", "1"},
                     {"LD_PRELOAD", TRIREME_TEST_MPI_COUNTS},
                     {"TRIREME_TEST_COUNTS", path("counts")}});
    EXPECT_EQ(wait_for(program, 600).code, 0) << read("run.out");
    fs::remove_all(folder_ / "run");
    std::vector<Counts> ranks;
    for (int rank = 0; rank < layout.ranks; ++rank)
      ranks.push_back(counts_in(read("counts." + std::to_string(rank)), layout));
    return ranks;
  }
  static Counts counts_in(const std::string& text, const Layout& layout) {
    Counts counts;
    std::string last;  // of the groups: that of the totals, created by all ranks
    for (std::size_t at = 0; (at = text.find("send ", at)) != std::string::npos; at += 5) {
      const std::string group = text.substr(at + 5, text.find(' ', at + 5) - at - 5);
      if (group != "-" && (last.empty() || std::stoi(group) > std::stoi(last))) last = group;
    }
    std::istringstream lines(text);
    std::string what, group;
    long calls = 0;
    double bytes = 0;
    while (lines >> what >> group >> calls >> bytes) {
      if (what == "send") counts.sent[group == last ? "totals" : kind_of(group, layout)] += bytes;
      if (what == "send") counts.sent_in_all += bytes;
      if (what == "receive") counts.received += bytes;
      if (what == "map") counts.mapped += bytes;
      if (what == "other") counts.others += calls;
    }
    EXPECT_GT(counts.mapped, 0) << text;
    return counts;
  }
  static long setting(const Layout& layout, const std::string& name) {
    const std::size_t at = layout.settings.find("parallel." + name + "=");
    return at == std::string::npos ? 1 : std::stol(layout.settings.substr(at + name.size() + 10));
  }
  // Classifies a group by its members' coordinates: tensor parallelism is innermost, then context
  // parallelism, and pipelines are outermost.
  static std::string kind_of(const std::string& group, const Layout& layout) {
    if (group == "-") return "world";
    std::vector<long> ranks;
    std::istringstream stream(group.substr(group.find(':') + 1));
    for (std::string rank; std::getline(stream, rank, ',');) ranks.push_back(std::stol(rank));
    const long tp = setting(layout, "tp"), share = tp * setting(layout, "cp");
    const long per_stage = layout.ranks / setting(layout, "pp");
    if (ranks.front() / per_stage != ranks.back() / per_stage) return "pipeline";
    if (ranks.front() / tp == ranks.back() / tp) return "tensor";
    return ranks.front() / share == ranks.back() / share ? "context" : "data";
  }

  // Bytes that the first rank of each pipeline position sends per step, from `plan --program`.
  std::vector<Bytes> planned(const std::string& program) const {
    const std::map<std::string, std::string> kinds = {
        {"totals", "totals"},      {"tensor", "tensor"},         {"pipeline", "pipeline"},
        {"embedding", "pipeline"}, {"gather", "data"},           {"shard", "data"},
        {"replicate", "data"},     {"expert", "data"},           {"expert shard", "data"},
        {"expert gather", "data"}, {"expert replicate", "data"}, {"context", "context"}};
    const std::regex piece("  \\S.*, (\\d+) times"),
        message("    .*\\[([\\w ]+)\\].*  (\\d+) bytes");
    std::vector<Bytes> ranks;
    double times = 1;
    std::istringstream lines(program);
    for (std::string line; std::getline(lines, line);) {
      std::smatch found;
      if (line.rfind("rank of pp", 0) == 0) {
        ranks.emplace_back();
      } else if (line == "  the step") {
        times = 1;
      } else if (std::regex_match(line, found, message)) {
        ranks.back()[kinds.at(found[1])] += times * std::stod(found[2]);
      } else if (std::regex_match(line, found, piece)) {
        times = std::stod(found[1]);
      }
    }
    return ranks;
  }

  void compare(const Layout& layout) const {
    SCOPED_TRACE(layout.text());
    fs::remove(path("program.txt"));  // the previous layout's file, which plan would not replace
    std::vector<std::string> arguments = {"plan", path("run.toml")};
    for (const std::string& word : words_of(settings_of(layout))) arguments.push_back(word);
    arguments.insert(arguments.end(), {"--ranks", std::to_string(layout.ranks), "--json",
                                       "--program", path("program.txt")});
    const Outcome plan = run(arguments);
    ASSERT_EQ(plan.code, 0) << plan.out;
    const auto json = nlohmann::json::parse(plan.out);
    const std::vector<Bytes> program = planned(read("program.txt"));
    // The second step's messages: the difference between the two runs.
    const std::vector<Counts> one = count(layout, 1), two = count(layout, 2);
    const int per_stage = layout.ranks / static_cast<int>(program.size());
    double totals = 0, planned_totals = 0;
    for (int rank = 0; rank < layout.ranks; ++rank) {
      const int position = rank / per_stage;
      Bytes sent = two[rank].sent;
      for (auto& [kind, bytes] : sent) bytes -= one[rank].sent.at(kind);
      EXPECT_EQ(sent["world"], 0);  // startup, end and checkpoints are identical
      totals += sent["totals"];
      Bytes expected = program[position];
      planned_totals += expected["totals"];
      if (rank % per_stage > 0) continue;  // plans describe only the first ranks
      for (const char* kind : {"world", "totals"}) {
        sent.erase(kind);
        expected.erase(kind);
      }
      EXPECT_EQ(sent, expected) << "rank " << rank;
      double regions = 0;
      for (const auto& [name, bytes] : json["pipeline_ranks"][position]["memory"].items())
        if (name != "copy for checkpoints") regions += bytes.get<double>();
      EXPECT_EQ(one[rank].mapped, regions) << "rank " << rank;
      EXPECT_EQ(one[rank].others, two[rank].others) << "rank " << rank;
    }
    EXPECT_NEAR(totals, planned_totals, layout.ranks);  // printed as integers
    const auto sum = [](const std::vector<Counts>& ranks, auto member) {
      return std::accumulate(ranks.begin(), ranks.end(), 0.0,
                             [&](double all, const Counts& rank) { return all + rank.*member; });
    };
    EXPECT_EQ(sum(two, &Counts::sent_in_all) - sum(one, &Counts::sent_in_all),
              sum(two, &Counts::received) - sum(one, &Counts::received));
  }
};
class SlowOneProgram : public OneProgram {};

// Every expert gets every row: loads are even, as plans assume.
const std::string even_experts = "model.family=llama moe.num_experts=4 moe.top_k=4 ";

TEST_F(OneProgram, IsPlannedAndRun) {
  compare({2, "parallel.tp=2 parallel.sequence_parallel=true"});
  compare({4, "parallel.pp=2 parallel.schedule=zbv parallel.zero=3"});
  compare({4, "parallel.cp=2 parallel.zero=1"});
  compare(
      {4, even_experts + "parallel.cp=2 parallel.cp_attention=ring parallel.ep=4 parallel.zero=2"});
}

TEST_F(SlowOneProgram, OfManyLayouts) {
  const std::vector<Layout> layouts = {
      {2, ""},
      {4, "parallel.numerics=exact"},
      {2, "parallel.numerics=exact parallel.exact_block=16 parallel.zero=1"},
      {2, "parallel.numerics=exact parallel.exact_block=32 parallel.zero=2"},
      {2, "parallel.zero=1 run.precision=bf16"},
      {4, "parallel.zero=2"},
      {2, "parallel.zero=2 run.precision=bf16 run.gradient_dtype=bf16"},
      {4, "parallel.zero=2 parallel.dp_replicate=2"},
      {4, "parallel.zero=3"},
      {2, "parallel.zero=3 parallel.numerics=exact parallel.recompute=full"},
      {2, "parallel.tp=2"},
      {4, "parallel.tp=4 parallel.recompute=selective"},
      {4, "parallel.tp=2 parallel.zero=3"},
      {4, "parallel.tp=2 parallel.zero=1 parallel.sequence_parallel=true"},
      {2, "parallel.pp=2 parallel.schedule=gpipe"},
      {4, "parallel.pp=4 parallel.schedule=zb1p"},
      {4, "parallel.pp=2 parallel.tp=2"},
      {4, "parallel.pp=2 parallel.schedule=vhalf parallel.zero=1"},
      {4, "parallel.pp=2 parallel.schedule=interleaved parallel.virtual_stages=2 parallel.zero=2"},
      {4, "parallel.pp=2 parallel.zero=2 model.tie_embeddings=false"},
      {4, "parallel.cp=2 parallel.cp_attention=ulysses parallel.zero=3"},
      {8, "parallel.cp=4 run.precision=bf16 parallel.recompute=selective"},
      {8, "parallel.cp=2 parallel.tp=2 parallel.sequence_parallel=true"},
      {8, "parallel.cp=2 parallel.pp=2 parallel.schedule=zb1p parallel.recompute=full"},
      {4, "parallel.cp=2 parallel.cp_attention=ring parallel.recompute=full"},
      {8, "parallel.cp=2 parallel.cp_attention=ring parallel.pp=2 run.precision=bf16"},
      {2, even_experts + "parallel.ep=2 parallel.recompute=full"},
      {4, even_experts + "parallel.tp=2 parallel.sequence_parallel=true parallel.ep=4"},
      {4, even_experts + "parallel.cp=2 parallel.zero=1 parallel.numerics=exact "
                         "parallel.exact_block=8 moe.aux_loss_coeff=0.01"},
      {4, even_experts + "parallel.ep=4 parallel.zero=3 run.precision=bf16"},
      {4, even_experts + "parallel.ep=2 parallel.zero=1 parallel.numerics=exact"},
      {4, even_experts + "parallel.ep=2 parallel.zero=2 parallel.dp_replicate=2"},
      {4, even_experts + "parallel.ep=2 parallel.pp=2 parallel.schedule=zbv"},
      {4, "optimizer.name=muon parallel.tp=2 parallel.zero=1"},
      {4, "optimizer.name=muon parallel.pp=2 parallel.zero=3 run.precision=bf16"},
  };
  for (const Layout& layout : sample_of(layouts, 0)) compare(layout);
}

}  // namespace
}  // namespace trireme::testing_cli
