// `trireme inspect` for torch.save files.
#include <algorithm>
#include <memory>

#include "base/counted.h"
#include "base/error.h"
#include "cli/inspect/report.h"
#include "formats/torch/file.h"
#include "importers/megatron/unknown_arguments.h"

namespace trireme::cli {
namespace {
// Non-tensor values of the outermost dictionary: "iteration = 100".
std::map<std::string, std::string> other_values(const Pickle& pickle) {
  std::map<std::string, std::string> values;
  if (pickle.kind(pickle.root()) != PickleKind::dict) return values;
  const auto items = pickle.children(pickle.root());
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (pickle.kind(items[i]) != PickleKind::text) continue;
    if (pickle.kind(items[i + 1]) == PickleKind::tensor) continue;
    values[std::string(pickle[items[i]].text)] = pickle.shown(items[i + 1]);
  }
  return values;
}

std::string note_of(const TorchFile& file) {
  return megatron::note_of_unknown_arguments(megatron_arguments(file, file.pickle().root()));
}

std::string checked_text(const TorchFile& file, bool verified) {
  if (!file.is_zip()) return "this format has no checksums";
  return verified ? "all checksums are correct" : "checksums not checked";
}

}  // namespace

std::string note_of_arguments(const fs::path& path) {
  return note_of(TorchFile(path));
}

void inspect_torch(const InspectOptions& options) {
  const TorchFile file(options.path);
  if (!options.no_verify) file.verify();
  std::vector<InspectRow> rows;
  std::int64_t elements = 0;
  for (const TorchEntry& entry : torch_entries(file.pickle(), file.pickle().root())) {
    rows.push_back({entry.name, std::string(entry.tensor.type->name), entry.tensor.shape,
                    entry.tensor.bytes()});
    elements += entry.tensor.count();
    const bool too_many = file.repeats(entry.tensor) && entry.tensor.count() > most_repeated;
    if (options.stats && entry.tensor.type->ours && !too_many) {
      add_stats(rows.back(), *entry.tensor.type->ours, entry.tensor.count(),
                [&](std::int64_t begin, std::int64_t end, std::byte* dst) {
                  file.read(entry.tensor, begin, end, dst);
                });
    }
  }
  const auto values = other_values(file.pickle());
  std::string text =
      fmt::format("PyTorch file {} ({})\n{}, {}, {}; {}\n", options.path,
                  file.is_zip() ? "zip archive" : "legacy format, before PyTorch 1.6",
                  counted(rows.size(), "tensor"), counted(elements, "element"),
                  human_bytes(file.size()), checked_text(file, !options.no_verify));
  for (const auto& [key, value] : values) text += fmt::format("{} = {}\n", key, value);
  const std::string note = note_of(file);
  if (!note.empty()) text += fmt::format("note: {}\n", note);
  report(options, text,
         {{"kind", "torch"},
          {"path", options.path},
          {"format", file.is_zip() ? "zip" : "stream"},
          {"verified", file.is_zip() && !options.no_verify},
          {"values", values},
          {"tensor_count", rows.size()},
          {"elements", elements},
          {"bytes", file.size()},
          {"note", note}},
         rows);
}

}  // namespace trireme::cli
