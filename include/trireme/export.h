// Symbol visibility and the versioned namespace of the shared library.
#pragma once

#define TRIREME_API __attribute__((visibility("default")))

// Names declared in trireme::v1 are available as trireme::NAME. An incompatible interface gets a
// new number.
namespace trireme::v1 {}
#ifndef TRIREME_BUILDS_LIBRARY  // the library has internal types with the same names
namespace trireme {
using namespace v1;
}
#endif
