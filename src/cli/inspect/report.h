// Shared by the kinds of `trireme inspect`: options, the table of tensors, and the report.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensors/stats.h"

namespace trireme::cli {

struct InspectOptions {
  std::string path;
  bool tensors = false;
  bool stats = false;
  bool no_verify = false;
  bool as_json = false;
};

// One line of the table of tensors.
struct InspectRow {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::optional<TensorStats> stats;
};

std::string human_bytes(std::uint64_t bytes);

// Reads elements [begin, end) of a tensor to `dst`: add_stats() asks for a piece at a time.
using ReadElements = std::function<void(std::int64_t begin, std::int64_t end, std::byte* dst)>;
// A tensor that repeats the few elements stored in its file may be arbitrarily large: statistics
// are omitted above this many elements.
inline constexpr std::int64_t most_repeated = std::int64_t{1} << 26;
void add_stats(InspectRow& row, DType dtype, std::int64_t count, const ReadElements& read);

// Note on unknown Megatron settings in a torch.save file, or "".
std::string note_of_arguments(const fs::path& path);

// Fails if writing to standard output fails.
void print_out(const std::string& text);

// Prints either the text, with the table of tensors if requested, or the JSON object.
void report(const InspectOptions& options, const std::string& text, nlohmann::ordered_json json,
            const std::vector<InspectRow>& rows);

// Inspects a torch.save file or a torch.distributed.checkpoint folder.
void inspect_torch(const InspectOptions& options);
void inspect_dcp(const InspectOptions& options);
// Inspects a folder with another program's weight files; returns false if there are none.
bool inspect_weights(const InspectOptions& options);

}  // namespace trireme::cli
