// What the programs here call, made of plain MPI.
#pragma once

#include <mpi.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/programs/faces.hpp"

namespace hymn::bench {

inline MPI_Datatype mpi_type(double) { return MPI_DOUBLE; }
inline MPI_Datatype mpi_type(std::uint32_t) { return MPI_UINT32_T; }
inline MPI_Datatype mpi_type(std::uint64_t) { return MPI_UINT64_T; }
inline MPI_Datatype mpi_type(std::complex<double>) { return MPI_C_DOUBLE_COMPLEX; }

/// How MPI exchanges faces.
enum class MpiFaces {
  sendrecv,  ///< two MPI_Sendrecv, one after the other
  requests   ///< all four messages at once
};

/// A communicator; copies are the same one. What is wrong ends the job, as MPI does by itself.
class WithMpi {
 public:
  static constexpr std::string_view name = "mpi";

  explicit WithMpi(MPI_Comm communicator, MpiFaces how = MpiFaces::sendrecv)
      : communicator_(communicator), how_(how) {
    MPI_Comm_rank(communicator, &rank_);
    MPI_Comm_size(communicator, &size_);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }

  WithMpi split(int color, int key) const {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(communicator_, color, key, &part);
    WithMpi made(part, how_);
    made.owned_ = {new MPI_Comm(part), [](MPI_Comm* communicator) {
                     MPI_Comm_free(communicator);
                     delete communicator;
                   }};
    return made;
  }

  /// Both faces go to the neighbours, and theirs come.
  void exchange(int previous, int next, const Faces& faces) const {
    if (how_ == MpiFaces::requests) return exchange_at_once(previous, next, faces);
    shift(faces.to_next, next, faces.from_previous, previous);
    shift(faces.to_previous, previous, faces.from_next, next);
  }
  double sum(double part) const {
    double total = 0;
    MPI_Allreduce(&part, &total, 1, MPI_DOUBLE, MPI_SUM, communicator_);
    return total;
  }
  void sum(std::span<const double> in, std::span<double> out) const {
    MPI_Allreduce(in.data(), out.data(), count_of(in), MPI_DOUBLE, MPI_SUM, communicator_);
  }
  template <class T>
  void all_gather(std::span<const T> in, std::span<T> out) const {
    MPI_Allgather(in.data(), count_of(in), mpi_type(T()), out.data(), count_of(in), mpi_type(T()),
                  communicator_);
  }
  /// Equal blocks.
  template <class T>
  void all_to_all(std::span<const T> in, std::span<T> out) const {
    const int count = count_of(in) / size_;
    MPI_Alltoall(in.data(), count, mpi_type(T()), out.data(), count, mpi_type(T()), communicator_);
  }
  /// Blocks of as many elements as the counts say, one after the other.
  template <class T>
  void all_to_all(std::span<const T> in, std::span<const std::size_t> in_counts, std::span<T> out,
                  std::span<const std::size_t> out_counts) const {
    const Blocks from(in_counts);
    const Blocks to(out_counts);
    MPI_Alltoallv(in.data(), from.counts.data(), from.offsets.data(), mpi_type(T()), out.data(),
                  to.counts.data(), to.offsets.data(), mpi_type(T()), communicator_);
  }

 private:
  /// As MPI wants them told.
  struct Blocks {
    explicit Blocks(std::span<const std::size_t> lengths) {
      int offset = 0;
      for (const std::size_t length : lengths) {
        counts.push_back(static_cast<int>(length));
        offsets.push_back(offset);
        offset += counts.back();
      }
    }
    std::vector<int> counts;
    std::vector<int> offsets;
  };
  template <class T>
  static int count_of(std::span<T> values) {
    return static_cast<int>(values.size());
  }
  void shift(std::span<const double> out, int destination, std::span<double> in, int source) const {
    MPI_Sendrecv(out.data(), count_of(out), MPI_DOUBLE, destination, 0, in.data(), count_of(in),
                 MPI_DOUBLE, source, 0, communicator_, MPI_STATUS_IGNORE);
  }
  /// Tags tell the two apart that go to the same rank, if there are only two.
  void exchange_at_once(int previous, int next, const Faces& faces) const {
    std::array<MPI_Request, 4> requests{};
    receive(faces.from_previous, previous, 0, requests[0]);
    receive(faces.from_next, next, 1, requests[1]);
    send(faces.to_next, next, 0, requests[2]);
    send(faces.to_previous, previous, 1, requests[3]);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }
  void receive(std::span<double> in, int source, int tag, MPI_Request& request) const {
    MPI_Irecv(in.data(), count_of(in), MPI_DOUBLE, source, tag, communicator_, &request);
  }
  void send(std::span<const double> out, int destination, int tag, MPI_Request& request) const {
    MPI_Isend(out.data(), count_of(out), MPI_DOUBLE, destination, tag, communicator_, &request);
  }

  MPI_Comm communicator_;
  MpiFaces how_;
  std::shared_ptr<MPI_Comm> owned_;  ///< one that split() has made
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace hymn::bench
