// MPI's collectives, each as one function that an algorithm calls in either form.
#pragma once

#include <type_traits>

#include "p2p/mpi/mpi_requests.hpp"

namespace hymn {

/// How MPI's functions are called: in their blocking form, or in their non-blocking one.
struct MpiBlocking {};
struct MpiPosting {
  MpiRequests& requests;  ///< gets one more with each call
};

/// One of MPI's collectives. Args are what both of its forms take.
template <class... Args>
struct MpiFunction {
  int (*block)(Args...);
  int (*post)(Args..., MPI_Request*);
  const char* block_name;
  const char* post_name;

  void operator()(MpiBlocking, Args... args) const { check_mpi(block(args...), block_name); }
  void operator()(MpiPosting how, Args... args) const {
    check_mpi(post(args..., how.requests.add()), post_name);
  }
};
template <class... Args>
MpiFunction(int (*)(Args...), int (*)(std::type_identity_t<Args>..., MPI_Request*), const char*,
            const char*) -> MpiFunction<Args...>;

/// The same collective over equal blocks and over blocks of given sizes: the arguments tell which.
template <class Equal, class Counted>
struct MpiBlockFunction : Equal, Counted {
  using Equal::operator();
  using Counted::operator();
};
template <class Equal, class Counted>
MpiBlockFunction(Equal, Counted) -> MpiBlockFunction<Equal, Counted>;

#define HYMN_MPI_FUNCTION(block, post) \
  MpiFunction { PMPI_##block, PMPI_##post, "MPI_" #block, "MPI_" #post }

}  // namespace hymn
