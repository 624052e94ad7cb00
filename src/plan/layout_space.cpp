// Nested loops over the degrees, with early pruning.
#include "plan/layout_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/counted.h"
#include "base/error.h"
#include "config/run_rules.h"
#include "config/schedules.h"
#include "parallel/stages.h"

namespace trireme {
namespace {

constexpr std::int64_t widest_micro_batch = 16, most_virtual_stages = 8;
// Numbers of nodes over which hybrid sharding shards states, if there are more nodes.
constexpr std::int64_t shard_nodes[] = {1, 8};

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d <= std::min(number, most); ++d)
    if (number % d == 0) found.push_back(d);
  return found;
}

class SpaceMaker {
 public:
  SpaceMaker(const Config& config, const RankSet& set)
      : config_(config), set_(set), batch_(config.train.global_batch_size) {
    TRIREME_CHECK(batch_ > 0);
    basis_.parallel = config.parallel;
  }

  LayoutSpace make() {
    const ModelConfig& m = config_.model;
    const std::int64_t experts = m.moe.num_experts;
    for (const std::int64_t tp : divisors(set_.ranks, set_.ranks_per_node)) {
      for (const std::int64_t cp : divisors(set_.ranks / tp, most_context())) {
        for (const std::int64_t ep : divisors(std::max<std::int64_t>(1, experts), experts + 1)) {
          basis_.parallel.tp = tp;
          basis_.parallel.cp = cp;
          basis_.parallel.ep = ep;
          if (suits_the_model()) add_pipelines();
        }
      }
    }
    space_.batch_units.assign(units_.begin(), units_.end());
    return std::move(space_);
  }

 private:
  // Maximum context-parallel size. GPUs need chunks of at least 4,096 positions.
  std::int64_t most_context() const {
    constexpr std::int64_t most = 16, positions_of_gpu = 8192;
    return config_.run.device == DeviceKind::cpu
               ? most
               : std::clamp<std::int64_t>(config_.model.seq_length / positions_of_gpu, 1, most);
  }

  void refuse(const std::string& why) {
    ++space_.refused;
    if (space_.refusal.empty()) space_.refusal = why;
  }

  // Whether the degrees within a stage are valid for the model, on the fewest possible ranks.
  bool suits_the_model() {
    ParallelConfig& p = basis_.parallel;
    p.pp = p.virtual_stages = p.dp_replicate = 1;
    p.schedule = ScheduleKind::one_f_one_b;
    p.stage_layers = {};
    p.recompute_layers = 0;
    p.distribute_saved_activations = false;
    p.zero = 0;
    p.recompute = Recompute::none;
    basis_.micro_batch_size = 1;
    std::int64_t dp = 1;
    while (p.tp * p.cp * dp % (p.ep * p.expert_tp) != 0) ++dp;
    Config tried = with_layout(config_, basis_);
    tried.train.global_batch_size = dp;
    tried.train.rampup_batch_size = {};
    tried.train.batch_size_schedule = {};
    const auto is_valid = [&](bool sequence_parallel) {
      p.sequence_parallel = tried.parallel.sequence_parallel = sequence_parallel;
      try {
        check_run(tried, p.tp * p.cp * dp);
        return true;
      } catch (const Error& error) {
        if (!sequence_parallel) refuse(error.what());
        return false;
      }
    };
    const std::int64_t positions = config_.model.seq_length / p.cp;
    return (p.tp > 1 && positions % p.tp == 0 && is_valid(true)) || is_valid(false);
  }

  void add_pipelines() {
    ParallelConfig& p = basis_.parallel;
    const std::int64_t rest = set_.ranks / (p.tp * p.cp);
    for (const std::int64_t pp : divisors(rest, config_.model.num_layers)) {
      p.pp = pp;
      dp_ = rest / pp;
      if (const std::int64_t stage = dp_ * p.cp * p.tp; stage % (p.ep * p.expert_tp) != 0) {
        refuse(
            fmt::format("parallel.ep = {} times expert_tp = {} does not divide the {} of a "
                        "pipeline stage",
                        p.ep, p.expert_tp, counted(stage, "rank")));
        continue;
      }
      if (batch_ % dp_ != 0) {
        units_.insert(dp_);
        refuse(fmt::format(
            "train.global_batch_size = {} is not divisible by the {} data-parallel ranks of tp = "
            "{}, pp = {}",
            batch_, dp_, p.tp, pp));
        continue;
      }
      for (std::int64_t size = 1; size <= widest_micro_batch && batch_ / dp_ % size == 0;
           size *= 2) {
        if (!suits_the_ramp(size)) break;
        basis_.micro_batch_size = size;
        add_schedules();
      }
    }
  }

  bool suits_the_ramp(std::int64_t size) const {
    const auto& ramp = config_.train.rampup_batch_size;
    return ramp.size() != 3 || (ramp[0] % (size * dp_) == 0 && ramp[1] % (size * dp_) == 0);
  }

  void add_schedules() {
    const ParallelConfig& p = basis_.parallel;
    if (p.pp == 1) return add_shards(ScheduleKind::one_f_one_b, 1);
    for (const ScheduleEntry& entry : all_schedules()) {
      if (entry.kind == ScheduleKind::gpipe) continue;  // like 1f1b, but with more memory
      if (entry.chunks == ChunkRule::several) {
        for (std::int64_t v = 2; v <= most_virtual_stages; ++v)
          if (config_.model.num_layers % (p.pp * v) == 0) add_shards(entry.kind, v);
      } else {
        add_shards(entry.kind, 1);
      }
    }
  }

  void add_shards(ScheduleKind schedule, std::int64_t virtual_stages) {
    ParallelConfig& p = basis_.parallel;
    p.schedule = schedule;
    p.virtual_stages = virtual_stages;
    p.stage_layers = {};
    const std::int64_t stages = p.pp * stages_per_rank(p), layers = config_.model.num_layers;
    if (stages > layers) return;
    if (layers % stages != 0) {
      if (stages > p.pp) return;  // uneven only with one stage per rank
      p.stage_layers = balanced_stage_layers(layers, static_cast<int>(stages));
    }
    const std::int64_t most_layers = (layers + stages - 1) / stages;
    for (const std::int64_t replicate : replicates()) {
      p.dp_replicate = replicate;
      if (dp_ / replicate * p.cp * p.tp % (p.ep * p.expert_tp) != 0) continue;
      const bool shared = dp_ / replicate * p.cp > 1;
      for (std::int64_t zero = replicate > 1 ? 1 : 0; zero <= (shared ? 3 : 0); ++zero) {
        p.zero = zero;
        add_recomputation(most_layers);
      }
    }
  }

  std::vector<std::int64_t> replicates() const {
    std::vector<std::int64_t> found = {1};
    const ParallelConfig& p = basis_.parallel;
    for (const std::int64_t nodes : shard_nodes) {
      const std::int64_t shard = nodes * set_.ranks_per_node / (p.tp * p.cp);
      if (shard > 1 && shard < dp_ && dp_ % shard == 0) found.push_back(dp_ / shard);
    }
    return found;
  }

  void add_recomputation(std::int64_t layers_of_stage) {
    ParallelConfig& p = basis_.parallel;
    const auto add = [&](Recompute how, std::int64_t layers) {
      p.recompute = how;
      p.recompute_layers = layers;
      p.distribute_saved_activations =
          config_.parallel.distribute_saved_activations && p.recompute == Recompute::full;
      space_.layouts.push_back(basis_);
    };
    add(Recompute::none, 0);
    add(Recompute::selective, 0);
    if (layers_of_stage > 1) add(Recompute::full, layers_of_stage / 2);
    add(Recompute::full, 0);
  }

  const Config& config_;
  const RankSet& set_;
  const std::int64_t batch_;
  Layout basis_;
  std::int64_t dp_ = 1;
  std::set<std::int64_t> units_;
  LayoutSpace space_;
};

struct Setting {
  const char* section;
  const char* key;
  std::string value;
  bool usual;
};

// Lists all settings in a fixed order; `usual`: has the default value.
std::vector<Setting> settings_of(const Layout& layout) {
  const ParallelConfig &p = layout.parallel, usual;
  std::vector<Setting> settings;
  const auto add = [&](const char* key, const std::string& value, bool is_usual) {
    settings.push_back({"parallel", key, value, is_usual});
  };
  const auto quoted = [](auto choice) { return fmt::format("\"{}\"", choice); };
  add("tp", std::to_string(p.tp), false);
  add("pp", std::to_string(p.pp), false);
  add("cp", std::to_string(p.cp), p.cp == usual.cp);
  add("ep", std::to_string(p.ep), p.ep == usual.ep);
  add("expert_tp", std::to_string(p.expert_tp), p.expert_tp == usual.expert_tp);
  add("schedule", quoted(p.schedule), p.schedule == usual.schedule);
  add("virtual_stages", std::to_string(p.virtual_stages), p.virtual_stages == usual.virtual_stages);
  add("stage_layers", fmt::format("[{}]", fmt::join(p.stage_layers, ", ")), p.stage_layers.empty());
  add("zero", std::to_string(p.zero), false);
  add("dp_replicate", std::to_string(p.dp_replicate), p.dp_replicate == usual.dp_replicate);
  add("sequence_parallel", p.sequence_parallel ? "true" : "false", !p.sequence_parallel);
  add("recompute", quoted(p.recompute), false);
  add("recompute_layers", std::to_string(p.recompute_layers), p.recompute_layers == 0);
  add("distribute_saved_activations", p.distribute_saved_activations ? "true" : "false",
      !p.distribute_saved_activations);
  settings.push_back({"train", "micro_batch_size", std::to_string(layout.micro_batch_size), false});
  return settings;
}

}  // namespace

Config with_layout(Config config, const Layout& layout) {
  config.parallel = layout.parallel;
  config.train.micro_batch_size = layout.micro_batch_size;
  return config;
}

std::int64_t micro_batches_of(const Config& config, const Layout& layout, int ranks) {
  return config.train.global_batch_size /
         (layout.micro_batch_size * data_parallel_size(layout.parallel, ranks));
}

LayoutSpace layout_space(const Config& config, const RankSet& set) {
  return SpaceMaker(config, set).make();
}

std::string layout_text(const Layout& layout, int ranks) {
  const ParallelConfig& p = layout.parallel;
  std::string text = fmt::format("tp {} pp {} dp {}", p.tp, p.pp, data_parallel_size(p, ranks));
  if (p.cp > 1) text += fmt::format(" cp {}", p.cp);
  if (p.ep > 1) text += fmt::format(" ep {}", p.ep);
  if (p.expert_tp > 1) text += fmt::format(" expert_tp {}", p.expert_tp);
  if (p.pp > 1) text += fmt::format(", {}", p.schedule);
  if (p.virtual_stages > 1) text += fmt::format(" x {}", p.virtual_stages);
  text += fmt::format(", ZeRO {}", p.zero);
  if (p.dp_replicate > 1) text += fmt::format(" in {} copies", p.dp_replicate);
  if (p.recompute != Recompute::none) text += fmt::format(", recompute {}", p.recompute);
  if (p.recompute_layers > 0) text += fmt::format(" {}", p.recompute_layers);
  return text + fmt::format(", micro-batch {}", layout.micro_batch_size);
}

std::string layout_toml(const Layout& layout) {
  std::string text, section;
  for (const Setting& setting : settings_of(layout)) {
    if (setting.usual) continue;
    if (setting.section != section)
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", setting.section);
    section = setting.section;
    text += fmt::format("{} = {}\n", setting.key, setting.value);
  }
  return text;
}

std::vector<std::string> layout_overrides(const Layout& layout, const Config& config) {
  const std::vector<Setting> settings = settings_of(layout),
                             before = settings_of({config.parallel, config.train.micro_batch_size});
  std::vector<std::string> words;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    std::string value = settings[i].value;
    if (value == before[i].value) continue;
    std::erase_if(value, [](char c) { return c == '"' || c == ' '; });
    words.push_back(fmt::format("{}.{}={}", settings[i].section, settings[i].key, value));
  }
  return words;
}

}  // namespace trireme
