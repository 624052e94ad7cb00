// Reads layouts and makes configurations of them.
#include "compare/parity_plan.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/machine_memory.h"
#include "compare/parity.h"
#include "compare/settings.h"
#include "config/batch_sizes.h"
#include "config/run_rules.h"
#include "runtime/memory.h"
#include "train/run/setup.h"
#include "train/schedule/split_data.h"

namespace trireme {
namespace {

constexpr std::int64_t most_ranks = 64;

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

// Items between spaces or commas that are not in brackets or quotes.
std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == '[') ++depth;
    if (c == ']') --depth;
    const bool separates = depth == 0 && !quoted && (c == ',' || is_space(c));
    if (!separates) items.back() += c;
    if (separates && !items.back().empty()) items.emplace_back();
  }
  if (items.back().empty()) items.pop_back();
  return items;
}

// "tp=2" in full: "parallel.tp=2".
std::string in_full(const std::string& layout, const std::string& item) {
  if (item == "sp") return "parallel.sequence_parallel=true";
  const std::size_t equals = item.find('=');
  if (item.substr(0, equals) == "sp") return "parallel.sequence_parallel" + item.substr(equals);
  if (equals == std::string::npos || equals == 0) {
    fail_input(
        "layout '{}': expected settings such as tp=2,pp=2 or parallel.tp=2, or sp for "
        "sequence_parallel, found '{}'",
        layout, item);
  }
  return item.find('.') < equals ? item : "parallel." + item;
}

struct ReadLayout {
  std::vector<std::string> overrides;
  std::int64_t dp = 0;  // 0: not given
};

ReadLayout read_layout(const std::string& text) {
  ReadLayout layout;
  if (items_of(text).empty())
    fail_input("layout '{}' is empty: expected settings such as tp=2,pp=2", text);
  std::set<std::string> keys;
  for (const std::string& item : items_of(text)) {
    const std::string setting = in_full(text, item);
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
    if (!keys.insert(key).second) fail_input("layout '{}' sets {} twice", text, key);
    if (key == "parallel.dp") {
      const bool is_number =
          !value.empty() && value.size() < 6 &&
          std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
      layout.dp = is_number ? std::stoll(value) : 0;
      if (layout.dp == 0) fail_input("layout '{}': {} is not a number of ranks", text, item);
    } else if (!is_of_layout(key)) {
      fail_input(
          "layout '{}': {} changes what is computed, so the layouts would not be comparable: set "
          "it for all of them with --set",
          text, item);
    } else {
      layout.overrides.push_back(setting);
    }
  }
  return layout;
}

// The smallest data-parallel degree with which the layout makes sense.
std::int64_t fewest_data_parallel(const ParallelConfig& p) {
  const std::int64_t experts = p.ep * p.expert_tp, sharing = p.tp * p.cp;
  std::int64_t dp = std::max<std::int64_t>(1, p.dp_replicate);
  if (p.zero > 0) dp *= 2;
  return std::lcm(dp, std::lcm(experts, sharing) / sharing);
}

// Only one kind of step is compared, on random tokens.
void equal_steps(Config& config) {
  config.train.rampup_batch_size.clear();
  config.train.batch_size_schedule.clear();
  config.curriculum = {};
  config.checkpoint.async = false;
  if (config.model.vocab_size > 0) config.data.tokenizer.clear();
}

// Puts the layout before the message of an error.
template <class Body>
auto naming(const std::string& layout, const Body& body) {
  try {
    return body();
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("layout '{}': {}", layout, e.what()));
  }
}

ParityLayout make_layout(const ParityRequest& request, const std::string& text) {
  const ReadLayout read = read_layout(text);
  std::vector<std::string> overrides = request.settings;
  overrides.insert(overrides.end(), read.overrides.begin(), read.overrides.end());
  ParityLayout layout{text, naming(text, [&] { return load_config(request.file, overrides); })};
  equal_steps(layout.config);
  const ParallelConfig& p = layout.config.parallel;
  const auto degree = [&](std::int64_t value) {
    return std::clamp<std::int64_t>(value, 1, 1 << 16);
  };
  const std::int64_t ranks = degree(p.tp) * degree(p.pp) * degree(p.cp) *
                             (read.dp > 0 ? read.dp : fewest_data_parallel(p));
  if (ranks > most_ranks) {
    fail_input(
        "layout '{}' needs {} ranks, which run as threads of this process: at most {} are allowed; "
        "choose smaller degrees",
        text, ranks, most_ranks);
  }
  layout.ranks = static_cast<int>(ranks);
  return layout;
}

void check_memory(const ParityLayout& layout, const ParityLayout& one_rank) {
  const std::int64_t needed = bytes_needed(layout, one_rank), there = machine_memory_bytes();
  if (needed <= there) return;
  fail_input(
      "{} together {} {} of memory, but this machine has {}: use a smaller model for all layouts, "
      "for example with --set model.num_layers=2 --set train.micro_batch_size=1",
      counted(layout.ranks, "rank"), layout.ranks == 1 ? "needs" : "need", bytes_to_text(needed),
      bytes_to_text(there));
}

}  // namespace

ParityPlan plan_parity(const ParityRequest& request) {
  ParityPlan plan{{"one rank", load_config(request.file, request.settings)}, {}};
  Config& base = plan.one_rank.config;
  if (base.run.device != DeviceKind::cpu) {
    fail_input("run.device = \"{}\": parity runs ranks as threads on the CPU: --set run.device=cpu",
               base.run.device);
  }
  equal_steps(base);
  const ParallelConfig of_file = std::exchange(base.parallel, {});
  base.parallel.numerics = of_file.numerics;
  base.parallel.exact_block = of_file.exact_block;
  base.parallel.exact_leaves = of_file.exact_leaves;
  base.offload = {};
  std::int64_t batch = base.train.micro_batch_size;
  for (std::string text : request.layouts) {
    std::ranges::replace_if(text, is_space, ' ');  // for the table
    const ParityLayout& layout = plan.layouts.emplace_back(make_layout(request, text));
    batch = std::lcm(batch, layout.config.train.micro_batch_size *
                                (layout.ranks / fewest_ranks_of(layout.config.parallel)));
  }
  if (base.train.global_batch_size == 0) base.train.global_batch_size = batch;
  resolve_vocabulary(base);
  check_run(base, 1);
  for (ParityLayout& layout : plan.layouts) {
    layout.config.train.global_batch_size = base.train.global_batch_size;
    layout.config.model.vocab_size = base.model.vocab_size;
    naming(layout.text, [&] {
      check_run(layout.config, layout.ranks);
      check_memory(layout, plan.one_rank);
    });
    layout.notes = layout_notes(layout.config, layout.ranks);
  }
  return plan;
}

}  // namespace trireme
