// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <stdexcept>

#include "tests/faults/faults.h"

// Calls of ranks: "mpi/", with the size of the data ("mpi/4": floats), "dnnl/" and "socket". MPI's handles
// are pointers in Open MPI and numbers elsewhere; they are only passed on.

namespace {

using faults::Faults;
using faults::next;

/// The program has loaded MPI for all libraries.
template <class Function>
Function* of_mpi(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) throw std::runtime_error(name);
  return reinterpret_cast<Function*>(found);
}

int before_mpi(const char* call, int count, void* type) {
  static auto* const size_of = of_mpi<int(void*, int*)>("PMPI_Type_size");
  int bytes = 0;
  size_of(type, &bytes);
  return Faults::instance().before(call, "mpi/" + std::to_string(bytes), std::to_string(count));
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  static auto* const real = of_mpi<int(int*, char***, int, int*)>("PMPI_Init_thread");
  Faults::instance().before("init", "mpi/", "");
  return real(argc, argv, required, provided);
}

int MPI_Finalize() {
  static auto* const real = of_mpi<int()>("PMPI_Finalize");
  Faults::instance().before("finalize", "mpi/", "");
  return real();
}

int MPI_Iallreduce(const void* from, void* to, int count, void* type, void* operation, void* ranks,
                   void* request) {
  static auto* const real =
      of_mpi<int(const void*, void*, int, void*, void*, void*, void*)>("PMPI_Iallreduce");
  before_mpi("sum", count, type);
  return real(from, to, count, type, operation, ranks, request);
}

int MPI_Ibcast(void* data, int count, void* type, int from, void* ranks, void* request) {
  static auto* const real = of_mpi<int(void*, int, void*, int, void*, void*)>("PMPI_Ibcast");
  if (before_mpi("broadcast", count, type) == faults::kFlip)
    static_cast<unsigned char*>(data)[1] ^= 0x10;  // of a float: more than rounding can remove again
  return real(data, count, type, from, ranks, request);
}

int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  static auto* const real = next<int(const void*, void*, int, const void*)>("dnnl_primitive_execute");
  Faults::instance().before("execute", "dnnl/", "");
  return real(primitive, stream, count, arguments);
}

ssize_t send(int fd, const void* bytes, size_t count, int flags) {
  static auto* const real = next<ssize_t(int, const void*, size_t, int)>("send");
  Faults::instance().before("send", "socket", std::to_string(count), bytes, count);
  return real(fd, bytes, count, flags);
}

}  // extern "C"
