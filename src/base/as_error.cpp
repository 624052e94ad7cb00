// Maps exceptions of the standard library and errno values to messages and exit codes.
#include "base/as_error.h"

#include <cerrno>
#include <filesystem>
#include <new>

namespace trireme {
namespace {

Error file_system_error(const std::filesystem::filesystem_error& error) {
  std::string paths = fmt::format("'{}'", error.path1().string());
  if (!error.path2().empty()) paths += fmt::format(" or '{}'", error.path2().string());
  return {exit_code_of(error.code().value()),
          fmt::format("cannot use {}: {}", paths, error.code().message())};
}

}  // namespace

ExitCode exit_code_of(int system_error) {
  switch (system_error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case EACCES:
    case EPERM:
    case EROFS:
      return ExitCode::bad_input;
    default:
      return ExitCode::failed;
  }
}

Error as_error(const std::exception& caught) {
  if (const auto* ours = dynamic_cast<const Error*>(&caught)) return *ours;
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&caught)) {
    return file_system_error(*files);
  }
  if (dynamic_cast<const std::bad_alloc*>(&caught)) return {ExitCode::failed, "out of memory"};
  return {ExitCode::failed, caught.what()};
}

}  // namespace trireme
