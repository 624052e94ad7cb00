// What the shared library shows to programs that link it.
#pragma once

#define TRIREME_API __attribute__((visibility("default")))

// Everything that is declared in trireme::v1 is found as trireme::NAME. The number changes with the
// first incompatible version of the interface.
namespace trireme::v1 {}
#ifndef TRIREME_BUILDS_LIBRARY  // within which other types have the same names
namespace trireme {
using namespace v1;
}
#endif
