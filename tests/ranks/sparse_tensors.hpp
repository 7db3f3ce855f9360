// Sparse tensors as tests of them make them, and what must come of their all_reduce.
#pragma once

#include <map>
#include <random>
#include <source_location>
#include <vector>

#include "hymn/sparse.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {

using Sizes = std::vector<std::int64_t>;

/// A tensor as a test makes it: one entry after the other.
template <class T>
struct Coo {
  Sizes shape;
  std::size_t sparse_dims = 1;
  std::vector<Sizes> places{};
  std::vector<T> values{};
  Sizes indices{};  // of view()

  std::size_t block() const {
    std::size_t elements = 1;
    for (std::size_t d = sparse_dims; d < shape.size(); ++d)
      elements *= static_cast<std::size_t>(shape[d]);
    return elements;
  }
  void add(const Sizes& place, const std::vector<T>& value) {
    places.push_back(place);
    values.insert(values.end(), value.begin(), value.end());
  }
  SparseView view() {
    indices.clear();
    for (std::size_t d = 0; d < sparse_dims; ++d)
      for (const Sizes& place : places) indices.push_back(place[d]);
    return {.shape = shape, .indices = indices, .values = values, .sparse_dims = sparse_dims};
  }
};

inline Sizes indices_of(const std::vector<Sizes>& places, std::size_t sparse_dims) {
  Coo<int> coo{.shape = {}, .sparse_dims = sparse_dims, .places = places};
  coo.view();
  return coo.indices;
}

/// What must come of it.
template <class T>
using Rows = std::map<Sizes, std::vector<T>>;

template <class T>
void expect_rows(const SparseTensor& tensor, const Rows<T>& rows, const Coo<T>& given,
                 std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "from here");
  std::vector<Sizes> places;
  std::vector<T> values;
  for (const auto& [place, row] : rows) {
    places.push_back(place);
    values.insert(values.end(), row.begin(), row.end());
  }
  EXPECT_EQ(tensor.shape, given.shape);
  EXPECT_EQ(tensor.sparse_dims, given.sparse_dims);
  EXPECT_EQ(tensor.entries(), rows.size());
  EXPECT_EQ(tensor.indices, indices_of(places, given.sparse_dims));
  const auto got = tensor.values_as<T>();
  EXPECT_EQ(std::vector<T>(got.begin(), got.end()), values);
}

/// The sum of all, folded in the order of ranks and entries.
template <class T>
Rows<T> sum_of(const std::vector<Coo<T>>& parts) {
  Rows<T> rows;
  for (const Coo<T>& part : parts)
    for (std::size_t i = 0; i < part.places.size(); ++i) {
      const std::size_t block = part.block();
      const auto [row, is_new] = rows.try_emplace(part.places[i], block);
      for (std::size_t k = 0; k < block; ++k) {
        const T value = part.values[i * block + k];
        row->second[k] = is_new ? value : static_cast<T>(row->second[k] + value);
      }
    }
  return rows;
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t end) { return random_() % end; }

 private:
  std::mt19937_64 random_;
};

/// What all ranks give: some nothing, some one index often.
template <class T>
std::vector<Coo<T>> random_parts(Dice& dice, int ranks) {
  const std::size_t sparse_dims = 1 + dice.below(3);
  Sizes shape;
  for (std::size_t d = 0; d < sparse_dims + dice.below(3); ++d)
    shape.push_back(static_cast<std::int64_t>(1 + dice.below(d < sparse_dims ? 6 : 4)));
  std::vector<Coo<T>> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    Coo<T> part{.shape = shape, .sparse_dims = sparse_dims};
    const std::size_t entries = dice.below(3) == 0 ? 0 : dice.below(40);
    for (std::size_t i = 0; i < entries; ++i) {
      Sizes place;
      for (std::size_t d = 0; d < sparse_dims; ++d)
        place.push_back(static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(shape[d]))));
      std::vector<T> value(part.block());
      for (T& each : value) each = static_cast<T>(static_cast<int>(dice.below(2001)) - 1000) / 3;
      part.add(place, value);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Until the Work has completed.
template <class T>
struct Started {
  Coo<T> mine;
  SparseView view = mine.view();
  SparseTensor result{};
  Work work{};

  void start(const ProcessGroup& group, const SparseOptions& options = {}) {
    work = all_reduce_sparse_async(group, view, result, options);
  }
};

}  // namespace hymn::test
