// The public error class, defined only here.
#include <trireme/error.h>

namespace trireme::v1 {

Error::Error(ExitCode code, const std::string& message)
    : std::runtime_error(message), code_(code) {}

Error::~Error() = default;

}  // namespace trireme::v1
