// Conversion between Trireme checkpoints and Hugging Face folders.
#pragma once

#include "formats/conversion.h"

namespace trireme {

// import_model() for a Hugging Face folder.
ConversionReport import_huggingface(const fs::path& from, const fs::path& to,
                                    const std::string& program, ThreadPool* pool);

// Writes the weights of a checkpoint, config.json, generation_config.json and the tokenizer's files
// into the folder `to`, which must be empty or not exist.
ConversionReport export_huggingface(const fs::path& checkpoint, const fs::path& to,
                                    const ExportOptions& options);

}  // namespace trireme
