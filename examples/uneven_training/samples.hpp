// A table of numbers to learn from: read from CSV, brought to one scale, and split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace uneven {

struct Samples {
  std::size_t features = 0;
  std::size_t classes = 0;
  std::vector<float> values;         ///< features after features, sample after sample
  std::vector<std::int32_t> labels;  ///< from 0 to classes - 1

  std::size_t size() const { return labels.size(); }
  std::span<const float> operator[](std::size_t sample) const {
    return std::span(values).subspan(sample * features, features);
  }
};

/// Lines of numbers; the last column is the class, which may be any word. A first line that is no
/// such line (names of columns, sizes) is left out. Throws std::runtime_error that names the line.
Samples read_csv(const std::string& path);

struct Split {
  Samples training;
  Samples test;
};

/// Every fifth sample, in an order shuffled by the seed, is for the test. All features are brought
/// to mean 0 and variance 1, as measured on the samples for training.
Split split(const Samples& all, std::uint64_t seed);

}  // namespace uneven
