// Reads the configuration that Megatron-Bridge saves (run_config.yaml): most of its keys are
// Megatron-LM's flags, whose rules apply.
#include "importers/settings/bridge.h"

#include <fmt/format.h>

#include <algorithm>

#include "importers/megatron/flags/flags.h"

namespace trireme::settings {
namespace {

using megatron::find_flag;
using megatron::Flag;

// Sections without effect on results, whatever they contain.
constexpr const char* other_sections[] = {
    "comm_overlap", "dist",           "ft",        "inprocess_restart",
    "logger",       "nvrx_straggler", "profiling", "rerun_state_machine",
    "rng",          "straggler"};

// Sections whose keys are flags.
constexpr const char* sections[] = {"model",      "train",     "optimizer", "scheduler",      "ddp",
                                    "checkpoint", "tokenizer", "dataset",   "mixed_precision"};

std::string dashed(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

bool is_nothing(const Json& value) {
  return value.is_null() || value.empty() || value == "";
}

// The schedule sets the decay of each step; the optimizer's own value has no effect.
void read_decay(Reader& reader, BridgeFlags& flags) {
  const std::string first = "scheduler.start_weight_decay", last = "scheduler.end_weight_decay";
  const auto start = reader.number(first), end = reader.number(last);
  reader.pass("optimizer.weight_decay");
  if (!start || !end)
    return reader.lose(start ? last : first, "is missing: weight decay is taken from it");
  if (*start != *end)
    return reader.lose(last, fmt::format("is {}, and {} is {}: weight decay is constant over a run",
                                         *end, first, *start));
  flags.give_value("--weight-decay", first);
  const auto other = reader.number("optimizer.weight_decay");
  if (other && *other != *start)
    reader.note(
        "optimizer.weight_decay",
        fmt::format("is {}, but {} = {} applies, as in Megatron-Bridge", *other, first, *start));
  const std::string norms = "scheduler.no_weight_decay_cond_type";
  const std::string kind = reader.text(norms).value_or("");
  if (kind == "qwen3_next")
    flags.turn_on("--apply-wd-to-qk-layernorm", norms);
  else if (!kind.empty())
    reader.lose(norms, fmt::format("is '{}': known is qwen3_next", kind));
}

// Paths and their weights, or paths alone: [[paths], weights]. `from` is the key that holds it.
void read_blend(Reader& reader, BridgeFlags& flags, const char* flag, const std::string& key,
                const std::string& from) {
  reader.consume(from);
  if (reader.has(from) && !reader.json_at(from)->is_array())
    reader.refuse(from, fmt::format("is {}, not a list of paths and weights", reader.shown(from)));
  if (!reader.has(key)) return;
  const std::vector<std::string> paths = reader.list(key + ".0"), weights = reader.list(key + ".1");
  if (reader.is_there(key + ".2"))
    reader.refuse(key,
                  fmt::format("is {}, not a list of paths and one of weights", reader.shown(key)));
  if (!weights.empty() && weights.size() != paths.size())
    reader.refuse(key, fmt::format("has {} paths and {} weights", paths.size(), weights.size()));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!weights.empty()) flags.give(flag, weights[i], from);
    flags.give(flag, paths[i], from);
  }
}

void read_blends(Reader& reader, BridgeFlags& flags) {
  const std::string all = "dataset.blend", parts = "dataset.blend_per_split";
  read_blend(reader, flags, "--data-path", all, all);
  read_blend(reader, flags, "--train-data-path", parts + ".0", parts);
  read_blend(reader, flags, "--valid-data-path", parts + ".1", parts);
  read_blend(reader, flags, "--test-data-path", parts + ".2", parts);
}

// Without a mask in its batches, Megatron-Bridge's attention crosses documents nevertheless.
void read_mask(Reader& reader, BridgeFlags& flags) {
  const std::string key = "dataset.reset_attention_mask";
  const std::string skips = "dataset.skip_getting_attention_mask_from_dataset";
  const std::string creates = "dataset.create_attention_mask";
  if (!reader.flag(key).value_or(false)) {
    reader.pass(skips);
    return reader.pass(creates);
  }
  const bool skipped = reader.flag(skips).value_or(true);
  const bool created = reader.flag(creates).value_or(true);
  if (created && !skipped) return flags.turn_on("--reset-attention-mask", key);
  reader.note(key, fmt::format("has no effect in Megatron-Bridge, since its batches have no "
                               "attention mask ({}): attention crosses documents here too",
                               created ? skips : creates));
}

void read_data(Reader& reader, BridgeFlags& flags) {
  const std::string target = reader.text("dataset._target_").value_or("");
  if (!target.ends_with(".GPTDatasetConfig")) {
    reader.consume_section("dataset");
    return reader.lose("dataset._target_",
                       fmt::format("is '{}': only Megatron's indexed datasets (GPTDatasetConfig) "
                                   "are carried over; give [data] yourself",
                                   target));
  }
  read_blends(reader, flags);
  read_mask(reader, flags);
  if (reader.flag("dataset.mock").value_or(false)) flags.turn_on("--mock-data", "dataset.mock");
  const auto seed = reader.count("dataset.random_seed");
  const std::int64_t all = reader.count("rng.seed").value_or(1234);
  if (seed && *seed != all)
    reader.note(
        "dataset.random_seed",
        fmt::format("is {}: the order of the data is determined by rng.seed = {}", *seed, all));
}

void read_run(Reader& reader, BridgeFlags& flags) {
  for (const auto& [key, flag] : {std::pair{"logger.log_interval", "--log-interval"},
                                  {"logger.tensorboard_dir", "--tensorboard-dir"},
                                  {"rng.seed", "--seed"}})
    if (reader.has(key)) flags.give_value(flag, key);
  const std::string evaluation = "train.eval_interval";  // null: never, and not every 1000 steps
  if (reader.is_there(evaluation) && !reader.has(evaluation))
    flags.give("--eval-interval", "0", evaluation);
  if (reader.flag("rng.data_parallel_random_init").value_or(false))
    flags.turn_on("--data-parallel-random-init", "rng.data_parallel_random_init");
  reader.pass_if_empty("peft", "only adapters are trained, which is not supported");
  const std::string overrides = "optimizer_config_override_provider";
  const std::string target = reader.text(overrides + "._target_").value_or("");
  if (!target.empty() && !target.ends_with(".OptimizerConfigOverrideProvider"))
    reader.lose(overrides,
                fmt::format("is '{}', which may give parameters rates of their own", target));
}

// The number of checkpoints that are kept is not a flag of Megatron-LM.
void read_kept(Reader& reader) {
  const std::string key = "checkpoint.most_recent_k";
  const std::int64_t kept = reader.count(key).value_or(-1);
  if (kept > 0)
    reader.set("checkpoint.keep", kept, key);
  else
    reader.pass(key);
}

// Another class of a section has fields or code of its own.
void read_classes(Reader& reader) {
  for (const auto& [section, known] : {std::pair{"checkpoint", "CheckpointConfig"},
                                       {"ddp", "DistributedDataParallelConfig"},
                                       {"mixed_precision", "MixedPrecisionConfig"},
                                       {"optimizer", "OptimizerConfig"},
                                       {"scheduler", "SchedulerConfig"},
                                       {"tokenizer", "TokenizerConfig"},
                                       {"train", "TrainingConfig"}}) {
    const std::string key = fmt::format("{}._target_", section);
    const std::string target = reader.text(key).value_or(known);
    if (target.substr(target.rfind('.') + 1) != known)
      reader.lose(
          key, fmt::format("is '{}', not {}: it may do more than its fields say", target, known));
  }
}

bool is_on(const Reader& reader, const BridgeDependent& row) {
  if (!row.on) return true;
  const Json* on = reader.json_at(row.on);
  if (row.word) return on && plain_value(*on).find(row.word) != std::string::npos;
  return reader.has(row.on) && !reader.says(row.on, "false|0");
}

bool is_idle(const Reader& reader, const std::string& key) {
  return std::ranges::any_of(bridge_dependents(), [&](const BridgeDependent& row) {
    return key.starts_with(row.prefix) && key != row.on && !is_on(reader, row);
  });
}

// Other files than saved ones may be incomplete.
void expect_keys(const Reader& reader) {
  for (const BridgeDependent& row : needed_bridge_keys())
    if (is_on(reader, row) && !reader.is_there(row.prefix))
      reader.refuse(row.prefix, "is missing, but Megatron-Bridge saves it");
}

void read_named(Reader& reader, BridgeFlags& flags) {
  for (const BridgeFlag& row : bridge_flags()) {
    const std::string key = row.key;
    if (reader.is_read(key)) continue;
    if (!reader.has(key) || is_idle(reader, key)) {
      reader.pass(key);
    } else if (row.when == BridgeFlag::When::given) {
      flags.give_value(row.flag, key);
    } else if (reader.flag(key).value_or(false) == (row.when == BridgeFlag::When::on)) {
      flags.turn_on(row.flag, key);
    }
  }
}

// A key without a row is the flag of its name, "--no-NAME" if it is false, or unknown.
void read_rest(Reader& reader, BridgeFlags& flags, const std::string& section) {
  const Json* json = reader.json_at(section);
  if (!json || !json->is_object()) return;
  for (const auto& [name, value] : json->items()) {
    const std::string key = fmt::format("{}.{}", section, name);
    if (name == "_target_") reader.consume(key);
    if (reader.is_read(key)) continue;
    if (is_idle(reader, key) || is_nothing(value)) {
      reader.pass(key);
      continue;
    }
    const Flag* flag = find_flag("--" + dashed(name));
    const Flag* off = find_flag("--no-" + dashed(name));
    if (flag && flag->fate == megatron::Fate::ignored) {
      reader.pass(key);
    } else if (value.is_boolean() && !value.get<bool>()) {
      if (off && off->fate != megatron::Fate::ignored)
        flags.turn_on(off->name, key);
      else if (flag || off)
        reader.pass(key);
    } else if (flag) {
      flags.give_value(flag->name, key);
    } else if (off) {
      reader.pass(key);
    }
  }
}

// Messages name the key where the rules name its flag.
void add(Reader& reader, const BridgeFlags& flags, const megatron::Translation& read) {
  megatron::Translation& all = reader.result().translation;
  for (const megatron::Setting& setting : read.settings)
    reader.set(setting.key, setting.value, flags.origin(setting.origin));
  for (const megatron::Note& note : read.notes) reader.note(flags.origin(note.flag), note.text);
  for (const megatron::Note& lost : read.lost) reader.lose(flags.origin(lost.flag), lost.text);
  all.lost_beyond += read.lost_beyond;
}

// The model's size includes the end of a document, which a NullTokenizer adds to its own.
void read_vocabulary(Reader& reader, BridgeFlags& flags) {
  const std::string own = "tokenizer.vocab_size", key = "model.vocab_size";
  const std::string type = "tokenizer.tokenizer_type";
  const bool null = reader.text(type).value_or("").starts_with("Null");
  if (reader.has(type)) flags.give_value("--tokenizer-type", type);
  if (null && reader.has(own))
    flags.give_value("--vocab-size", own);
  else
    reader.pass(own);
  if (const auto size = reader.count(key); size && !null)
    reader.set("model.vocab_size", *size, key);
}

}  // namespace

void BridgeFlags::turn_on(const std::string& flag, const std::string& key) {
  reader_.consume(key);
  keys_[flag] = key;
  words_.push_back(flag);
}

void BridgeFlags::give(const std::string& flag, const std::string& value, const std::string& key) {
  const bool more = keys_.contains(flag) && keys_[flag] == key;
  reader_.consume(key);
  keys_[flag] = key;
  if (!more) words_.push_back(flag);
  words_.push_back(value);
}

void BridgeFlags::give_value(const std::string& flag, const std::string& key) {
  const Json& value = *reader_.json_at(key);
  reader_.consume(key);
  if (value.is_boolean()) {
    if (value.get<bool>()) turn_on(flag, key);
    return;
  }
  keys_[flag] = key;
  words_.push_back(fmt::format("{}={}", flag, bridge_word(value)));
}

std::string BridgeFlags::origin(const std::string& flag) const {
  const auto found = keys_.find(flag);
  return found == keys_.end() ? flag : found->second;
}

void read_bridge(Reader& reader, std::int64_t ranks) {
  reader.consume("_target_");
  BridgeFlags flags(reader);
  read_classes(reader);
  expect_keys(reader);
  read_bridge_precision(reader, flags);
  pass_bridge_keys(reader);
  read_bridge_model(reader, flags);
  read_decay(reader, flags);
  read_data(reader, flags);
  read_run(reader, flags);
  read_kept(reader);
  read_named(reader, flags);
  read_vocabulary(reader, flags);
  for (const char* section : sections) read_rest(reader, flags, section);
  reader.pass_if_off("tensor_inspect", "its features may change what is computed");
  for (const char* section : other_sections) {
    reader.consume_section(section);
    if (reader.is_there(section)) reader.result().passed.push_back(section);
  }
  add(reader, flags, megatron::translate(flags.words(), {.ranks = ranks, .lenient = true}));
}

}  // namespace trireme::settings
