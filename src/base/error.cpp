// Reports a violated invariant.
#include "base/error.h"

namespace trireme {

void assertion_failed(const char* condition, const char* file, int line) {
  throw Error(ExitCode::failed,
              fmt::format("internal error: '{}' does not hold at {}:{}; please report this",
                          condition, file, line));
}

}  // namespace trireme
