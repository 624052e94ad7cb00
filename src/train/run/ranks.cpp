// Exchanges texts of any length by fixed-size collectives: lengths first.
#include "train/run/ranks.h"

#include <algorithm>

namespace trireme {
namespace {

std::vector<std::string> gather(Communicator& world, const std::string& text) {
  const auto own = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(world.size()));
  world.all_gather(&own, sizes.data(), 1, DType::i64, "sizes of reports").wait();
  std::vector<std::string> texts;
  if (world.rank() > 0) {
    if (own > 0) world.send(text.data(), own, DType::u8, 0, "report to rank 0").wait();
    return texts;
  }
  std::vector<Transfer> transfers;
  for (const std::int64_t size : sizes) texts.emplace_back(static_cast<std::size_t>(size), '\0');
  texts[0] = text;
  for (int r = 1; r < world.size(); ++r) {
    if (sizes[r] == 0) continue;  // known to all ranks: nothing is sent
    transfers.push_back({Transfer::Direction::receive, r, texts[r].data(), sizes[r], DType::u8});
  }
  world.exchange(transfers, "reports of all ranks").wait();
  return texts;
}

std::string broadcast(Communicator& world, std::string text) {
  auto size = static_cast<std::int64_t>(text.size());
  world.broadcast(&size, 1, DType::i64, 0, "size of a message").wait();
  text.resize(static_cast<std::size_t>(size));
  world.broadcast(text.data(), size, DType::u8, 0, "message of rank 0").wait();
  return text;
}

bool is_alone(const Transport* transport) {
  return !transport || transport->place().size == 1;
}

}  // namespace

std::vector<std::string> reports_of_ranks(Transport* transport, const std::string& report) {
  return is_alone(transport) ? std::vector{report} : gather(transport->world(), report);
}

std::string from_rank_0(Transport* transport, const std::string& text) {
  return is_alone(transport) ? text : broadcast(transport->world(), text);
}

std::string first_failure(Transport* transport, const std::string& report) {
  const std::vector<std::string> reports = reports_of_ranks(transport, report);
  const auto found = std::ranges::find_if(reports, [](const auto& text) { return !text.empty(); });
  return from_rank_0(transport, found == reports.end() ? "" : *found);
}

Ranks checkpoint_ranks(Transport& transport) {
  Ranks ranks;
  ranks.rank = transport.place().rank;
  ranks.size = transport.place().size;
  ranks.gather = [&](const std::string& text) { return gather(transport.world(), text); };
  ranks.broadcast = [&](const std::string& text) { return broadcast(transport.world(), text); };
  return ranks;
}

}  // namespace trireme
