// The C++ library: the parts of `trireme train`, for use in other programs.
// docs/library.md is an overview, and examples/library has complete programs.
//
// Everything is in the namespace trireme. Errors are thrown as trireme::Error. The headers include
// only the standard library. Between trainers, the library keeps no state except threads, loaded
// plug-ins and devices, which exist as long as the process.
#pragma once

#include <trireme/checkpoint.h>
#include <trireme/config.h>
#include <trireme/data.h>
#include <trireme/error.h>
#include <trireme/job.h>
#include <trireme/model.h>
#include <trireme/trainer.h>
