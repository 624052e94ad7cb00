// Names in a run's folder on a local disk: rank-00003, and copy-00003 on another node.
#include "train/checkpoints/local_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <tuple>

#include "base/hash.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"

namespace trireme {
namespace {

constexpr std::string_view own_prefix = "rank-", copy_prefix = "copy-";

std::optional<int> rank_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), rank);
  if (error != std::errc() || end != name.end() || rank < 0) return std::nullopt;
  return rank;
}

// Smaller is better.
auto cost_of(const LocalPart& part) {
  return std::tuple(part.reader != part.owner, part.copy, part.reader);
}

}  // namespace

std::vector<int> copy_holders(const std::vector<std::string>& hosts) {
  std::vector<std::vector<int>> nodes;
  std::map<std::string, std::size_t> node_of;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [found, is_new] = node_of.try_emplace(hosts[rank], nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[found->second].push_back(static_cast<int>(rank));
  }
  if (nodes.size() < 2) return {};
  std::vector<int> holders(hosts.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const std::vector<int>& next = nodes[(n + 1) % nodes.size()];
    for (std::size_t i = 0; i < nodes[n].size(); ++i)
      holders[static_cast<std::size_t>(nodes[n][i])] = next[i % next.size()];
  }
  return holders;
}

fs::path local_folder(const fs::path& run, int owner, bool copy) {
  return run / fmt::format("{}{:05}", copy ? copy_prefix : own_prefix, owner);
}

std::vector<LocalFolder> local_folders(const fs::path& run) {
  std::vector<LocalFolder> folders;
  std::error_code error;
  for (fs::directory_iterator it(run, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (const auto own = rank_in(name, own_prefix))
      folders.push_back({*own, false, it->path()});
    else if (const auto copied = rank_in(name, copy_prefix))
      folders.push_back({*copied, true, it->path()});
  }
  return folders;
}

std::vector<LocalPart> parts_in(const LocalFolder& folder, int reader, std::int64_t shared) {
  std::vector<LocalPart> parts;
  for (const std::int64_t step : saved_steps(folder.path)) {
    if (step <= shared) continue;
    try {
      const CheckpointReader checkpoint(folder.path / step_folder(step));
      const auto& texts = checkpoint.state().texts;
      if (texts.at("after") != std::to_string(shared)) continue;
      parts.push_back({reader, folder.owner, folder.copy, step,
                       hash_to_text(hash64(texts.at("branch"))), texts.at("layout")});
    } catch (const std::exception&) {
      continue;  // unusable, but others may be usable
    }
  }
  return parts;
}

std::string to_text(const std::vector<LocalPart>& parts) {
  std::string text;
  for (const LocalPart& part : parts) {
    text += fmt::format("{} {} {} {} {} {}\n", part.reader, part.owner, part.copy ? 1 : 0,
                        part.step, part.branch, part.layout);
  }
  return text;
}

std::vector<LocalPart> parts_of_text(const std::string& text) {
  std::vector<LocalPart> parts;
  std::istringstream stream(text);
  LocalPart part;
  while (stream >> part.reader >> part.owner >> part.copy >> part.step >> part.branch >>
         part.layout)
    parts.push_back(part);
  return parts;
}

std::optional<LocalStep> newest_step(const std::vector<LocalPart>& found,
                                     const std::vector<std::string>& layouts) {
  // By step and branch: the best part of each rank.
  std::map<std::pair<std::int64_t, std::string>, std::map<int, const LocalPart*>> best;
  for (const LocalPart& part : found) {
    const auto owner = static_cast<std::size_t>(part.owner);
    if (owner >= layouts.size() || part.layout != layouts[owner]) continue;
    const LocalPart*& of_owner = best[{part.step, part.branch}][part.owner];
    if (!of_owner || cost_of(part) < cost_of(*of_owner)) of_owner = &part;
  }
  for (auto one = best.rbegin(); one != best.rend(); ++one) {
    if (one->second.size() != layouts.size()) continue;
    LocalStep step{one->first.first, {}};
    for (const auto& [rank, part] : one->second) step.parts.push_back(*part);
    return step;
  }
  return std::nullopt;
}

}  // namespace trireme
