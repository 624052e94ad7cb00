// A line for each place: tokens, epoch, position, row, check.
#include "data/stream/stream_places.h"

#include <cinttypes>
#include <cstdio>

#include "base/error.h"
#include "base/hash.h"
#include "data/documents/text_documents.h"

namespace trireme {
namespace {

// Tokenizing this many again takes a moment.
constexpr std::int64_t tokens_between = 1 << 20;

}  // namespace

StreamPlaces::StreamPlaces(const fs::path& file, std::uint64_t key, bool writes)
    : path_(file), key_(key), writes_(writes && !file.empty()), places_{{0, {}}} {
  if (!path_.empty()) read();
}

std::uint64_t StreamPlaces::check_of(const Place& place) const {
  const std::uint64_t numbers[] = {key_, static_cast<std::uint64_t>(place.tokens),
                                   static_cast<std::uint64_t>(place.window.epoch),
                                   static_cast<std::uint64_t>(place.window.position),
                                   static_cast<std::uint64_t>(place.window.row)};
  return hash64(numbers, sizeof(numbers));
}

void StreamPlaces::read() {
  std::error_code error;
  if (!fs::is_regular_file(path_, error)) return;
  std::string bytes;
  try {
    bytes = read_file(path_);
  } catch (const Error&) {
    return;  // as if it were not there
  }
  for (std::string_view text = bytes; !text.empty();) {
    const std::string line(take_line(text));
    Place place;
    std::uint64_t check = 0;
    const int found = std::sscanf(
        line.c_str(), "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNx64, &place.tokens,
        &place.window.epoch, &place.window.position, &place.window.row, &check);
    if (found == 5 && check == check_of(place)) places_[place.tokens] = place.window;
  }
}

StreamPlaces::Place StreamPlaces::before(std::int64_t token) const {
  const std::lock_guard lock(mutex_);
  const auto after = places_.upper_bound(token);
  const auto& [tokens, window] = *std::prev(after);
  return {tokens, window};
}

void StreamPlaces::add(const Place& place) {
  const std::lock_guard lock(mutex_);
  const auto after = places_.upper_bound(place.tokens);
  if (place.tokens - std::prev(after)->first < tokens_between) return;
  places_[place.tokens] = place.window;
  if (writes_) write(place);
}

void StreamPlaces::write(const Place& place) {
  try {
    if (!file_.is_open()) {
      make_folders(path_.parent_path());
      file_ = File(path_, File::Mode::append);
    }
    const std::string line = fmt::format("{} {} {} {} {:x}\n", place.tokens, place.window.epoch,
                                         place.window.position, place.window.row, check_of(place));
    file_.write(line.data(), line.size());
  } catch (const Error&) {
    writes_ = false;  // a full disk: finding places again takes time, but training continues
  }
}

}  // namespace trireme
