/* The C interface between trireme and MPI: the MPI part (trireme_mpi.cpp) may be built with another
   compiler, another C++ library and any MPI 3 library, as long as both sides use this file. It is
   loaded only by processes that a launcher started together.

   Functions that return text return NULL on success, else a description of the failure, which is
   valid until the next call. No function blocks unless noted. Calls must be serialized but may come
   from any thread. */
#ifndef TRIREME_MPI_H
#define TRIREME_MPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Must be bumped with every change of this file. */
#define TRIREME_MPI_INTERFACE 7
#define TRIREME_MPI_FILE "libtrireme_mpi.so"
#define TRIREME_MPI_HOST_BYTES 256
/* The one symbol of the file: const struct trireme_mpi_functions* trireme_mpi(void). */
#define TRIREME_MPI_SYMBOL "trireme_mpi"

struct trireme_mpi_place {
  int rank, size;             /* in the job */
  int local_rank, local_size; /* among the processes on this node */
  int local_processors;       /* available to them together */
  char host[TRIREME_MPI_HOST_BYTES];
};

struct trireme_mpi_functions {
  int interface; /* TRIREME_MPI_INTERFACE; stays first */

  /* "Open MPI v4.1.4"; does not initialize MPI. */
  const char* (*library)(void);

  /* Initializes MPI and fills rank, size and host of the place; context 0 can then be used. Depends
     on the launcher only: no rank has contacted another one yet. */
  const char* (*begin)(struct trireme_mpi_place* place);
  /* Completes the initialization; blocks for all ranks. Control messages have `control_bytes`.
     Fills `hosts` with the host of each rank of the job, as in its place. */
  const char* (*open)(size_t control_bytes, struct trireme_mpi_place* place,
                      char (*hosts)[TRIREME_MPI_HOST_BYTES]);
  /* Finalizes MPI if all ranks are done (`orderly`), which blocks for them; else does not, since
     other ranks may never get there. */
  void (*close)(int orderly);
  /* Ends all processes of the job; does not return. */
  void (*abort)(int exit_code);

  /* Opens a separate message space (communicator) for these world ranks; context 0 exists from the
     start and has all ranks. All members call it with the same `key`, and may block for each
     other. */
  const char* (*open_context)(const int* world_ranks, int count, int key, int* context);

  /* `peer` is a rank in the context. Messages with equal context and tag do not overtake each
     other. At most 2^30 bytes, tags up to 32767. */
  const char* (*send)(const void* data, size_t bytes, int peer, int context, int tag,
                      uint64_t* request);
  const char* (*receive)(void* data, size_t bytes, int peer, int context, int tag,
                         uint64_t* request);
  /* Sets `done` to 1 once the message is complete; the request is then released. */
  const char* (*test)(uint64_t* request, int* done);

  /* Small messages, separate from data; `peer` is a world rank. */
  const char* (*send_control)(const void* message, int peer);
  const char* (*receive_control)(void* message, int* peer, int* arrived);
};

const struct trireme_mpi_functions* trireme_mpi(void);

#ifdef __cplusplus
}
#endif
#endif
