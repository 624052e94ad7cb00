// Series as JSON for the page: delta-encoded steps, values rounded to plot precision.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "view/series.h"

namespace trireme {

using SeriesByName = std::map<std::string, Series, std::less<>>;

// Returns "loss":{"at":0,"steps":[1,1,1],"mean":[...],"low":[...],"high":[...]} for each series
// with points changed after `version`: points from index `at` on replace those of the page. The
// first of `steps` is absolute, the others are increments. Counters have no low and high, and their
// mean is the last value of each point. Redundant `low` and `high` are omitted.
std::vector<std::string> series_members(std::initializer_list<const SeriesByName*> all,
                                        std::uint64_t version);

}  // namespace trireme
