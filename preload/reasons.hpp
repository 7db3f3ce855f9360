// Why a collective was left to MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hymn::preload {

enum class Reason : std::uint8_t {
  carried,        ///< it was not
  kind,           ///< nonblocking, persistent, of neighbours, or with a type for each rank
  off,            ///< HYMN_PRELOAD=watch, or MPI_Init is not over, or hymn cannot be used here
  one_rank,       ///< there is nobody to speak to
  early,          ///< one of the first two of its communicator
  two_groups,     ///< an intercommunicator
  strangers,      ///< ranks that are not in MPI_COMM_WORLD
  order,          ///< needs the order of ranks, which is another one than in MPI_COMM_WORLD
  no_group,       ///< hymn could make no group for it, or has given it up
  empty,          ///< nothing is moved
  not_quicker,    ///< MPI is as quick
  bits,           ///< HYMN_PRELOAD_BITS=mpi
  operation,      ///< an operation that this type does not have
  bad_arguments,  ///< for MPI to say so
  unsupported,    ///< hymn has no way to carry it
};

constexpr std::string_view text_of(Reason reason) {
  switch (reason) {
    case Reason::carried:
      return "carried by hymn";
    case Reason::kind:
      return "of a kind that hymn leaves to MPI";
    case Reason::off:
      return "hymn carries nothing here";
    case Reason::one_rank:
      return "of one rank";
    case Reason::early:
      return "one of the first two of its communicator";
    case Reason::two_groups:
      return "on an intercommunicator";
    case Reason::strangers:
      return "with ranks outside of MPI_COMM_WORLD";
    case Reason::order:
      return "needs the order of ranks, which is not that of MPI_COMM_WORLD";
    case Reason::no_group:
      return "on a communicator that hymn has no group for";
    case Reason::empty:
      return "empty";
    case Reason::not_quicker:
      return "MPI is as quick";
    case Reason::bits:
      return "HYMN_PRELOAD_BITS=mpi";
    case Reason::operation:
      return "of an operation that MPI does not define for the type";
    case Reason::bad_arguments:
      return "with arguments that MPI refuses";
    case Reason::unsupported:
      return "hymn has no way to carry it";
  }
  return "";
}

inline constexpr std::size_t reason_count = static_cast<std::size_t>(Reason::unsupported) + 1;

}  // namespace hymn::preload
