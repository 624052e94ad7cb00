// Common to the kinds of `trireme inspect`: options, the table of tensors, and the report.
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

// Adds to the numbers of a row, in pieces of a tensor however large it is.
using ReadElements = std::function<void(std::int64_t begin, std::int64_t end, std::byte* dst)>;
// A tensor that repeats what little its file holds may be of any size: beyond this many elements
// its statistics are left out.
inline constexpr std::int64_t most_repeated = std::int64_t{1} << 26;
void add_stats(InspectRow& row, DType dtype, std::int64_t count, const ReadElements& read);

// Note on settings of a Megatron run in a file of torch.save that are not known here, or "".
std::string note_of_arguments(const fs::path& path);

// Fails where standard output takes no more.
void print_out(const std::string& text);

// Prints either the text, with the table of tensors where it is wanted, or the JSON object.
void report(const InspectOptions& options, const std::string& text, nlohmann::ordered_json json,
            const std::vector<InspectRow>& rows);

// A file of torch.save, and a folder of torch.distributed.checkpoint.
void inspect_torch(const InspectOptions& options);
void inspect_dcp(const InspectOptions& options);
// A folder with files of weights of another program; false where there are none.
bool inspect_weights(const InspectOptions& options);

}  // namespace trireme::cli
