// k-means (Lloyd's algorithm): each iteration sums up what each rank has of each cluster, 10 KB.
//
//   scripts/mpirun -n 2 --bind-to core build/bin/bench_kmeans --sizes 32,256,2048
//
// A size is the number of a rank's points. Coordinates are whole numbers, so that sums are exact
// and centroids do not depend on their order.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "bench/programs/beside.hpp"
#include "bench/programs/inputs.hpp"

namespace hymn::bench {
namespace {

constexpr std::size_t clusters = 40;
constexpr std::size_t dimensions = 31;
constexpr int iterations = 10;
// A row for each dimension, and one for the number of points: 10240 bytes.
constexpr std::size_t sums = clusters * (dimensions + 1);

using Distances = std::array<double, clusters>;

template <class Comm>
class KMeans {
 public:
  static constexpr std::string_view name = "kmeans";
  static std::vector<std::size_t> sizes() { return {32, 256, 2048}; }

  KMeans(Comm comm, std::size_t count) : comm_(comm), points_(count * dimensions) {}

  void set_up(std::uint64_t seed) {
    Numbers numbers(seed, 1 + static_cast<std::uint64_t>(comm_.rank()));
    for (double& coordinate : points_) coordinate = static_cast<double>(numbers.next() >> 54);
    Numbers everywhere(seed, 0);
    for (double& coordinate : begin_) coordinate = static_cast<double>(everywhere.next() >> 54);
  }

  void run() {
    centroids_ = begin_;
    for (int i = 0; i < iterations; ++i) {
      std::fill(part_.begin(), part_.end(), 0.0);
      for (std::size_t at = 0; at < points_.size(); at += dimensions) assign(&points_[at]);
      comm_.sum(std::span<const double>(part_), std::span(total_));
      move_centroids();
    }
  }

  /// All points are in some cluster: in each dimension, and counted, they add up to what there is.
  void check() {
    for (std::size_t row = 0; row <= dimensions; ++row) {
      double own = 0;
      for (std::size_t at = 0; at < points_.size(); at += dimensions)
        own += row == dimensions ? 1 : points_[at + row];
      double clustered = 0;
      for (std::size_t k = 0; k < clusters; ++k) clustered += total_[row * clusters + k];
      if (comm_.sum(own) != clustered)
        throw std::runtime_error(fmt::format("kmeans with {}: points are missing", Comm::name));
    }
  }

  const std::vector<double>& result() const { return centroids_; }
  static bool same(const std::vector<double>& a, const std::vector<double>& b) { return a == b; }

 private:
  void assign(const double* point) {
    Distances distances{};
    for (std::size_t d = 0; d < dimensions; ++d) {
      const double* const centroids = &centroids_[d * clusters];
      for (std::size_t k = 0; k < clusters; ++k)
        distances[k] += (point[d] - centroids[k]) * (point[d] - centroids[k]);
    }
    const auto nearest = static_cast<std::size_t>(
        std::min_element(distances.begin(), distances.end()) - distances.begin());
    for (std::size_t d = 0; d < dimensions; ++d) part_[d * clusters + nearest] += point[d];
    part_[dimensions * clusters + nearest] += 1;
  }
  /// One without points stays where it is.
  void move_centroids() {
    const double* const counts = &total_[dimensions * clusters];
    for (std::size_t i = 0; i < dimensions * clusters; ++i)
      if (counts[i % clusters] > 0) centroids_[i] = total_[i] / counts[i % clusters];
  }

  Comm comm_;
  std::vector<double> points_;
  std::vector<double> begin_ = std::vector<double>(clusters * dimensions);
  std::vector<double> centroids_;  ///< those of one dimension after the other, as the sums
  std::vector<double> part_ = std::vector<double>(sums);
  std::vector<double> total_ = std::vector<double>(sums);
};

}  // namespace
}  // namespace hymn::bench

int main(int argc, char** argv) { return hymn::bench::run_beside<hymn::bench::KMeans>(argc, argv); }
