// What the programs here call, made of hymn.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "bench/programs/faces.hpp"
#include "hymn/hymn.hpp"

namespace hymn::bench {

/// A group; copies are the same one. What is wrong is thrown.
class WithHymn {
 public:
  static constexpr std::string_view name = "hymn";

  explicit WithHymn(ProcessGroup group) : group_(std::move(group)) {}
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  WithHymn split(int color, int key) { return WithHymn(group_.split(color, key)); }

  /// Both faces go to the neighbours, and theirs come. Two sendrecv, which allocate nothing, are
  /// the quickest way: one batch_isend_irecv, isend and irecv, or Mesh::exchange_halos of the same
  /// faces take 0.8 to 1.5 us more.
  void exchange(int previous, int next, const Faces& faces) {
    group_.sendrecv(faces.to_next, next, 0, faces.from_previous, previous, 0);
    group_.sendrecv(faces.to_previous, previous, 0, faces.from_next, next, 0);
  }
  double sum(double part) { return group_.all_reduced(part); }
  void sum(std::span<const double> in, std::span<double> out) { group_.all_reduce(in, out); }
  template <class T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    group_.all_gather(in, out);
  }
  /// Equal blocks.
  template <class T>
  void all_to_all(std::span<const T> in, std::span<T> out) {
    group_.all_to_all(in, out);
  }
  /// Blocks of as many elements as the counts say, one after the other.
  template <class T>
  void all_to_all(std::span<const T> in, std::span<const std::size_t> in_counts, std::span<T> out,
                  std::span<const std::size_t> out_counts) {
    group_.all_to_all(in, in_counts, out, out_counts);
  }

 private:
  ProcessGroup group_;
};

}  // namespace hymn::bench
