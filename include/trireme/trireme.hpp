// The library: everything that `trireme train` is made of, for programs of one's own.
// docs/library.md tells how it fits together, and examples/library has whole programs.
//
// All of it lies in the namespace trireme. Errors are trireme::Error. Nothing but the standard
// library is included, and the library keeps no state between one trainer and the next but threads,
// loaded plug-ins and devices, which live as long as the process.
#pragma once

#include <trireme/checkpoint.h>
#include <trireme/config.h>
#include <trireme/data.h>
#include <trireme/error.h>
#include <trireme/job.h>
#include <trireme/model.h>
#include <trireme/trainer.h>
