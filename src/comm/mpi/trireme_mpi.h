/* What trireme asks of MPI, in C: the MPI part (trireme_mpi.cpp) may come from another compiler,
   another C++ library and any MPI of version 3, as long as both sides have this file. It is loaded
   only by processes that a launcher started together.

   Functions that return text return NULL where they succeeded, else what failed; the text lives
   until the next call. Nothing waits, except where said. The caller makes one call at a time, from
   any thread. */
#ifndef TRIREME_MPI_H
#define TRIREME_MPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* To be raised with every change of this file. */
#define TRIREME_MPI_INTERFACE 7
#define TRIREME_MPI_FILE "libtrireme_mpi.so"
#define TRIREME_MPI_HOST_BYTES 256
/* The one symbol of the file: const struct trireme_mpi_functions* trireme_mpi(void). */
#define TRIREME_MPI_SYMBOL "trireme_mpi"

struct trireme_mpi_place {
  int rank, size;             /* in the job */
  int local_rank, local_size; /* among the processes on this node */
  int local_processors;       /* that these may use together */
  char host[TRIREME_MPI_HOST_BYTES];
};

struct trireme_mpi_functions {
  int interface; /* TRIREME_MPI_INTERFACE; stays first */

  /* "Open MPI v4.1.4"; does not initialize MPI. */
  const char* (*library)(void);

  /* Initializes MPI. Of the place it knows rank, size and host; messages can go in context 0. It
     needs the launcher alone: no rank has reached another one yet. */
  const char* (*begin)(struct trireme_mpi_place* place);
  /* The rest of the start, which waits for all ranks. Control messages have `control_bytes`. Fills
     `hosts` with the host of each rank of the job, as in its place. */
  const char* (*open)(size_t control_bytes, struct trireme_mpi_place* place,
                      char (*hosts)[TRIREME_MPI_HOST_BYTES]);
  /* Takes MPI down where all ranks are done (`orderly`), which waits for them; else just goes away,
     since other ranks may never come to the end. */
  void (*close)(int orderly);
  /* Ends all processes of the job; does not return. */
  void (*abort)(int exit_code);

  /* A space of messages that cannot mix with those of others, for these world ranks; context 0 has
     all of them from the start. All members call it, and may wait for each other. `key` is the same
     on all of them. */
  const char* (*open_context)(const int* world_ranks, int count, int key, int* context);

  /* `peer` is a place in the context. Messages with equal context and tag do not overtake each
     other. At most 2^30 bytes, tags up to 32767. */
  const char* (*send)(const void* data, size_t bytes, int peer, int context, int tag,
                      uint64_t* request);
  const char* (*receive)(void* data, size_t bytes, int peer, int context, int tag,
                         uint64_t* request);
  /* `done` is 1 once the message is complete, and the request is then over. */
  const char* (*test)(uint64_t* request, int* done);

  /* Small messages apart from the data; `peer` is a world rank. */
  const char* (*send_control)(const void* message, int peer);
  const char* (*receive_control)(void* message, int* peer, int* arrived);
};

const struct trireme_mpi_functions* trireme_mpi(void);

#ifdef __cplusplus
}
#endif
#endif
