// Series as JSON for the page: steps as differences, values with the digits that a picture shows.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "view/series.h"

namespace trireme {

using SeriesByName = std::map<std::string, Series, std::less<>>;

// "loss":{"at":0,"steps":[1,1,1],"mean":[...],"low":[...],"high":[...]} for each series with points
// that changed after `version`: those from number `at` on replace what the page has from there. The
// first step is a step, the others are what is added to it. Counters have no low and high, and the
// last value of each point as its mean. `low` and `high` are absent where they say nothing more.
std::vector<std::string> series_members(std::initializer_list<const SeriesByName*> all,
                                        std::uint64_t version);

}  // namespace trireme
