/* SPDX-License-Identifier: Apache-2.0
   Slows MPI down to a link of SLOW_MPI_BYTES bytes a second and SLOW_MPI_SECONDS of latency: each request is complete once this rank's link
   has carried it, even if MPI was faster. For tests of predicted times (scripts/bench/ranks.py --predicted):

     mpicc -shared -fPIC -O2 -o slow_mpi.so scripts/bench/slow_mpi.c
     LD_PRELOAD=./slow_mpi.so SLOW_MPI_BYTES=1e8 SLOW_MPI_SECONDS=1e-3 mpirun -n 2 trainer ...

   One thread calls MPI, as in the program. A sum of N ranks sends 2 (N - 1) / N of its bytes, as along a ring. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

enum { kMost = 65536 };
static struct {
  MPI_Request request;
  double ready;
} started[kMost];
static int count;
static double rate, latency, link_free;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double number(const char* name, double fallback) {
  const char* text = getenv(name);
  return text ? atof(text) : fallback;
}

static void note(MPI_Request request, double bytes) {
  if (rate == 0) {
    rate = number("SLOW_MPI_BYTES", 1e12);
    latency = number("SLOW_MPI_SECONDS", 0);
  }
  const double begin = now();
  link_free = (link_free > begin ? link_free : begin) + bytes / rate;
  if (count == kMost) abort();
  started[count].request = request;
  started[count++].ready = link_free + latency;
}

static double bytes_of(int n, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return (double)n * size;
}

/* The share of a tensor that a rank sends, `passes` times along a ring. */
static double share(MPI_Comm comm, int passes) {
  int ranks = 1;
  PMPI_Comm_size(comm, &ranks);
  return passes * (ranks - 1.0) / ranks;
}

int MPI_Iallreduce(const void* a, void* b, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c, MPI_Request* r) {
  const int code = PMPI_Iallreduce(a, b, n, t, op, c, r);
  note(*r, share(c, 2) * bytes_of(n, t));
  return code;
}
int MPI_Ireduce(const void* a, void* b, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c, MPI_Request* r) {
  const int code = PMPI_Ireduce(a, b, n, t, op, root, c, r);
  note(*r, share(c, 1) * bytes_of(n, t));
  return code;
}
int MPI_Ibcast(void* a, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r) {
  const int code = PMPI_Ibcast(a, n, t, root, c, r);
  note(*r, share(c, 1) * bytes_of(n, t));
  return code;
}
int MPI_Isend(const void* a, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request* r) {
  const int code = PMPI_Isend(a, n, t, to, tag, c, r);
  note(*r, bytes_of(n, t));
  return code;
}
int MPI_Irecv(void* a, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request* r) {
  const int code = PMPI_Irecv(a, n, t, from, tag, c, r);
  note(*r, 0); /* its sender's link carries it */
  return code;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  for (int i = 0; i < count; ++i) {
    if (started[i].request != *request) continue;
    if (now() < started[i].ready) {
      int ignored = 0; /* MPI makes progress only while it is called */
      PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &ignored, MPI_STATUS_IGNORE);
      *flag = 0;
      return MPI_SUCCESS;
    }
    const int code = PMPI_Test(request, flag, status);
    if (*flag) started[i] = started[--count];
    return code;
  }
  return PMPI_Test(request, flag, status);
}
