// Gradients that are sparse: each is reduced by itself, after the buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "hymn/sparse.hpp"
#include "training/bucket.hpp"

namespace hymn::training::detail {

class SparseGradients {
 public:
  explicit SparseGradients(const Model& model);

  /// UsageError for one that is not of that parameter's type and sizes. It stays where it is until
  /// reduce() has returned.
  void give(const Model& model, std::size_t parameter, const SparseView& gradient);
  void declare(std::size_t parameter, std::vector<std::int64_t> indices) {
    all_.at(parameter).declared = std::move(indices);
  }
  /// Of those that were given; of others nothing. Waits.
  void reduce(const Averaging& averaging);
  const SparseTensor& average(std::size_t parameter) const { return all_.at(parameter).average; }

 private:
  struct One {
    SparseView given;  ///< without entries: nothing
    SparseView nothing;
    SparseTensor average;
    std::vector<std::int64_t> declared;  ///< empty: any index
  };
  std::map<std::size_t, One> all_;  // by parameter, the same on all ranks
};

}  // namespace hymn::training::detail
