// Parts of the readers of torchtitan's job files and printed configurations.
#pragma once

#include "importers/settings/reader.h"
#include "importers/settings/torchtitan_age.h"

namespace trireme::settings {

// Handles keys of all versions without effect on results, and the effects of their other values.
void pass_torchtitan_keys(Reader& reader);

// Sets the tokenizer: a tiktoken file until July 2025, then a folder with Hugging Face's
// tokenizer.json.
void set_torchtitan_tokenizer(Reader& reader, const std::string& key, const std::string& path);

// Reads the length of the run and the schedule of learning rates, whose peak is at `lr_key`.
void read_torchtitan_rates(Reader& reader, const Age& age, const std::string& lr_key);

void read_torchtitan_checkpoint(Reader& reader, const Age& age);

// Reads the model of a printed configuration, module by module.
void read_torchtitan_model(Reader& reader);

// Reads parallelism degrees and derived settings: ranks, ZeRO, schedule, batch and precision.
void read_torchtitan_layout(Reader& reader, const Age& age, std::int64_t ranks);

}  // namespace trireme::settings
