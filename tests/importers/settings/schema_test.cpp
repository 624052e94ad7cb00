// Every key of the four systems and of torchtitan's printed configuration, with a value that is
// not its default: it becomes a setting, is lost or refused by its name, noted, or listed as one
// that changes no number. Nothing else.
//
// A row of tests/importers/settings/data/SYSTEM.tsv: the key, its value as JSON, what comes of it,
// and what else the file says (KEY=VALUE;...). What comes of it: "lost", "refused", "noted",
// "passed", or settings ("parallel.tp=2;parallel.pp=1", of which each is another than without the
// key). TRIREME_UPDATE_SETTINGS=1 writes the rows again: read the difference.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "importers/settings/bridge_file.h"
#include "importers/settings/printed_model.h"
#include "importers/settings/settings_file.h"

namespace trireme::settings {
namespace {

using Values = std::map<std::string, std::string>;  // dotted keys, values as JSON

struct SchemaRow {
  std::string key, value, outcome;
  Values besides;
  std::string line_of_besides;
};

std::vector<std::string> split_at(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::vector<SchemaRow> rows_of(const fs::path& file) {
  std::vector<SchemaRow> rows;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells = split_at(line, '\t');
    cells.resize(4);
    SchemaRow row{cells[0], cells[1], cells[2], {}, cells[3]};
    for (const std::string& one : split_at(cells[3], ';'))
      row.besides[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
    rows.push_back(row);
  }
  return rows;
}

// As a file: dotted keys of TOML, or objects within each other.
std::string written(const Values& values, bool toml) {
  std::string text;
  Json root = Json::object();
  for (const auto& [key, value] : values) {
    if (toml) text += key + " = " + value + "\n";
    Json* json = &root;
    for (const std::string& part : split_at(key, '.')) json = &(*json)[part];
    *json = Json::parse(value);
  }
  return toml ? text : root.dump();
}

struct SchemaOutcome {
  std::string refused;
  SettingsFile file;
};

SchemaOutcome outcome_of(const Values& values, const std::string& name) {
  SchemaOutcome outcome;
  try {
    outcome.file = read_settings(written(values, name.ends_with(".toml")), name, 8);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    outcome.refused = error.what();
  }
  return outcome;
}

bool names(const std::vector<megatron::Note>& notes, const std::string& key,
           const std::vector<megatron::Note>& before) {
  return std::ranges::any_of(notes, [&](const megatron::Note& note) {
    return std::ranges::find(before, note) == before.end() &&
           (note.flag == key || key.starts_with(note.flag + "."));
  });
}

// What differs from the settings without the key.
std::string changes(const SettingsFile& with, const SettingsFile& without) {
  const auto all = [](const SettingsFile& file) {
    std::map<std::string, std::string> values;
    for (const auto& setting : file.translation.settings) values[setting.key] = setting.value;
    values["ranks"] = std::to_string(file.ranks);
    values["nodes"] = std::to_string(file.nodes);
    return values;
  };
  std::map<std::string, std::string> now = all(with), before = all(without);
  std::string text;
  for (const auto& [key, value] : now)
    if (!before.contains(key) || before[key] != value)
      text += (text.empty() ? "" : ";") + key + "=" + value;
  for (const auto& [key, value] : before)
    if (!now.contains(key)) text += (text.empty() ? "" : ";") + ("no " + key);
  return text;
}

// In the words of a row; "" for a key that was dropped without a word.
std::string seen(const SchemaRow& row, const Values& base, const std::string& name) {
  Values without = base;
  for (const auto& [key, value] : row.besides) {
    std::erase_if(without, [&](const auto& one) { return one.first.starts_with(key + "."); });
    without[key] = value;
  }
  Values with = without;
  const Values whole = without;
  without.erase(row.key);
  std::erase_if(with, [&](const auto& one) { return one.first.starts_with(row.key + "."); });
  with[row.key] = row.value;
  const SchemaOutcome now = outcome_of(with, name);
  SchemaOutcome before = outcome_of(without, name);
  if (!before.refused.empty()) before = outcome_of(whole, name);  // the key must be there
  if (!now.refused.empty()) {
    const std::string last = row.key.substr(row.key.rfind('.') + 1);
    return now.refused.find(last) == std::string::npos ? "" : "refused";
  }
  if (names(now.file.translation.lost, row.key, before.file.translation.lost)) return "lost";
  const std::string changed = changes(now.file, before.file);
  if (!changed.empty()) return changed;
  if (names(now.file.translation.notes, row.key, before.file.translation.notes)) return "noted";
  const bool passed = std::ranges::any_of(now.file.passed, [&](const std::string& key) {
    return key == row.key || row.key.starts_with(key + ".");
  });
  return passed ? "passed" : "";
}

void compare(const std::string& system, const Values& base, const std::string& name) {
  const fs::path file = fs::path(TRIREME_TEST_DATA) / (system + ".tsv");
  const std::vector<SchemaRow> rows = rows_of(file);
  EXPECT_GT(rows.size(), 100u);
  std::string text;
  for (const SchemaRow& row : rows) {
    const std::string found = seen(row, base, name);
    EXPECT_NE(found, "") << row.key << " = " << row.value << " is dropped silently";
    EXPECT_EQ(found, row.outcome) << row.key << " = " << row.value << " beside "
                                  << row.line_of_besides;
    text += row.key + "\t" + row.value + "\t" + found +
            (row.line_of_besides.empty() ? "" : "\t" + row.line_of_besides) + "\n";
  }
  if (std::getenv("TRIREME_UPDATE_SETTINGS")) std::ofstream(file) << text;
}

TEST(SettingsSchema, NoKeyOfTorchtitanIsDropped) {
  compare("torchtitan",
          {{"model.name", "\"llama3\""}, {"model.flavor", "\"8B\""}, {"training.steps", "1000"}},
          "job.toml");
}

TEST(SettingsSchema, NoPrintedKeyOfTorchtitanIsDropped) {
  compare("torchtitan_printed",
          {{"model_spec", printed_llama()["model_spec"].dump()},
           {"optimizer", printed_llama()["optimizer"].dump()},
           {"training.gc_freq", "50"},
           {"training.steps", "1000"}},
          "printed.json");
}

TEST(SettingsSchema, NoKeyOfMegatronBridgeIsDropped) {
  compare("bridge", bridge_file(), "run_config.yaml");
}

TEST(SettingsSchema, NoKeyOfDeepSpeedIsDropped) {
  compare("deepspeed",
          {{"train_batch_size", "64"},
           {"bf16.enabled", "true"},
           {"gradient_clipping", "1.0"},
           {"zero_optimization.stage", "1"},
           {"optimizer.type", "\"AdamW\""},
           {"optimizer.params.lr", "0.0003"}},
          "ds.json");
}

// DeepSpeed's file beside Megatron's flags: settings, notes and what is lost, in one text.
std::string beside_flags(const Values& values) {
  const std::string file = written(values, false);
  megatron::TranslateOptions how;
  how.lenient = true;
  how.read_file = [&](const std::string&) { return std::optional(file); };
  const std::vector<std::string> flags = split_at(
      "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 32 "
      "--max-position-embeddings 32 --micro-batch-size 4 --lr 0.1 --train-iters 9 --deepspeed "
      "--deepspeed_config ds.json",
      ' ');
  const megatron::Translation translation = megatron::translate(flags, how);
  std::string text;
  for (const auto& setting : translation.settings) text += setting.key + "=" + setting.value + "\n";
  for (const auto* notes : {&translation.lost, &translation.notes})
    for (const megatron::Note& note : *notes) text += note.text + "\n";
  return text;
}

TEST(SettingsSchema, NoKeyOfDeepSpeedIsDroppedBesideMegatronsFlags) {
  for (const SchemaRow& row : rows_of(fs::path(TRIREME_TEST_DATA) / "deepspeed.tsv")) {
    Values with = row.besides;
    const std::string before = beside_flags(with);
    std::erase_if(with, [&](const auto& one) { return one.first.starts_with(row.key + "."); });
    with[row.key] = row.value;
    const std::string now = beside_flags(with);
    const std::string section = row.key.substr(0, row.key.find('.'));
    EXPECT_TRUE(now != before || now.find(row.key) != now.npos || now.find(section) != now.npos)
        << row.key << " = " << row.value << " is dropped silently: " << now;
  }
}

TEST(SettingsSchema, NoKeyOfAccelerateIsDropped) {
  compare("accelerate",
          {{"compute_environment", "\"LOCAL_MACHINE\""},
           {"distributed_type", "\"MULTI_GPU\""},
           {"mixed_precision", "\"no\""},
           {"num_processes", "8"},
           {"num_machines", "1"}},
          "a.yaml");
}

}  // namespace
}  // namespace trireme::settings
