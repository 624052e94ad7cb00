// `trireme inspect` for torch.distributed.checkpoint folders.
#include "base/counted.h"
#include "base/error.h"
#include "cli/inspect/report.h"
#include "formats/dcp/folder.h"

namespace trireme::cli {

void inspect_dcp(const InspectOptions& options) {
  const DcpFolder folder(options.path);
  const DcpMetadata& metadata = folder.metadata();
  std::vector<InspectRow> rows;
  std::int64_t elements = 0;
  std::size_t cut = 0;
  for (const DcpTensor& tensor : metadata.tensors) {
    if (const std::string fault = dcp_tiling_fault(tensor); !fault.empty())
      fail_input("'{}': the tensor '{}' is incomplete: {}", options.path, tensor.name, fault);
    elements += tensor.count();
    cut += tensor.chunks.size() > 1 ? 1 : 0;
    rows.push_back({tensor.name, std::string(tensor.type->name), tensor.shape,
                    static_cast<std::uint64_t>(tensor.count() * tensor.type->bytes)});
    for (const DcpChunk& chunk : tensor.chunks) {
      if (options.no_verify && !options.stats) break;
      const auto file = folder.open(tensor, chunk);
      if (!options.no_verify) file->verify();
      if (!options.stats || !tensor.type->ours) continue;
      const PickleTensor& held = file->pickle().tensor(file->pickle().root());
      if (file->repeats(held) && held.count() > most_repeated) continue;
      add_stats(rows.back(), *tensor.type->ours, held.count(),
                [&](std::int64_t begin, std::int64_t end, std::byte* dst) {
                  file->read(held, begin, end, dst);
                });
    }
  }
  std::map<std::string, std::string> values;
  for (const DcpValue& value : metadata.values) {
    const auto file = folder.open(value.name);
    values[value.name] = file->pickle().shown(file->pickle().root());
  }
  std::string text = fmt::format(
      "PyTorch distributed checkpoint {}\n{} ({} of them in several parts), {}, {} in {}; {}\n",
      options.path, counted(rows.size(), "tensor"), cut, counted(elements, "element"),
      human_bytes(folder.bytes()), counted(metadata.files.size(), "file"),
      options.no_verify ? "checksums not checked" : "all checksums are correct");
  // An optimizer has as many tensors as parameters.
  constexpr std::size_t most_shown = 40;
  std::size_t shown = 0;
  for (const auto& [name, value] : values)
    if (shown++ < most_shown) text += fmt::format("{} = {}\n", name, value);
  if (shown > most_shown) text += fmt::format("and {} more values\n", shown - most_shown);
  const fs::path common = fs::path(options.path) / "common.pt";  // of Megatron-Core
  const std::string note = fs::exists(common) ? note_of_arguments(common) : "";
  if (!note.empty()) text += fmt::format("note: {}\n", note);
  report(options, text,
         {{"kind", "dcp"},
          {"path", options.path},
          {"version", metadata.version},
          {"verified", !options.no_verify},
          {"files", metadata.files},
          {"values", values},
          {"tensor_count", rows.size()},
          {"elements", elements},
          {"bytes", folder.bytes()},
          {"note", note}},
         rows);
}

}  // namespace trireme::cli
