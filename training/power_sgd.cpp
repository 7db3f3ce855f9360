// PowerSGD: M (n x m) is sent as P (n x r) and Q (m x r), whose product P Q^T is near it.
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "hymn/gradient_hooks.hpp"
#include "training/host_hook.hpp"

namespace hymn::training {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Part of a bucket, and where its factors are in those of all.
struct Block {
  std::size_t offset = 0;
  std::size_t rows = 0, columns = 0, rank = 0;
  std::size_t p = 0, q = 0;
};
struct Range {
  std::size_t offset = 0;
  std::size_t count = 0;
};

/// How a bucket is sent.
struct Layout {
  std::vector<Block> blocks;
  std::vector<Range> rest;  ///< what is not compressed
  std::size_t p_count = 0, q_count = 0, rest_count = 0;
  std::size_t padded = 0;  ///< elements, zeros at the end included
};

void add_block(Layout& layout, std::size_t offset, std::size_t rows, std::size_t columns,
               std::size_t rank) {
  layout.blocks.push_back({offset, rows, columns, rank, layout.p_count, layout.q_count});
  layout.p_count += rows * rank;
  layout.q_count += columns * rank;
}

/// Of the dimension that is outermost in memory; 0 where it is no matrix.
std::size_t outermost_extent(const BufferView& gradient) {
  if (gradient.shape.size() < 2 || gradient.count == 0) return 0;
  if (gradient.strides.empty()) return static_cast<std::size_t>(gradient.shape.front());
  const auto outermost = std::ranges::max_element(gradient.strides);
  return static_cast<std::size_t>(
      gradient.shape[static_cast<std::size_t>(outermost - gradient.strides.begin())]);
}

Layout layout_of(const GradBucket& bucket, const PowerSgdOptions& options) {
  Layout layout;
  layout.padded = bucket.buffer().count;
  if (options.batched) {
    const auto side =
        static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(layout.padded))));
    layout.padded = std::max(layout.padded, side * side);
    if (side != 0) add_block(layout, 0, side, side, std::min(side, options.rank));
    return layout;
  }
  std::size_t offset = 0;
  for (std::size_t i = 0; i < bucket.parameters().size(); ++i) {
    const BufferView gradient = bucket.gradient(i);
    const std::size_t rows = outermost_extent(gradient);
    const std::size_t columns = rows == 0 ? 0 : gradient.count / rows;
    const std::size_t rank = std::min({rows, columns, options.rank});
    const double sent = static_cast<double>((rows + columns) * rank);
    if (rank != 0 && sent * options.min_compression_rate < static_cast<double>(gradient.count)) {
      add_block(layout, offset, rows, columns, rank);
    } else {
      layout.rest.push_back({offset, gradient.count});
      layout.rest_count += gradient.count;
    }
    offset += gradient.count;
  }
  return layout;
}

/// What is kept of a bucket, and one iteration of it.
template <class T>
class Factors {
 public:
  Future<BufferView> reduce(const GradBucket& bucket, const PowerSgdOptions& options,
                            std::uint64_t iteration, const std::shared_ptr<Factors>& self) {
    layout_ = layout_of(bucket, options);
    take_in(bucket.buffer(), options);
    first_.resize(layout_.p_count + layout_.rest_count);
    // A gradient that was not finite, which a step may be left out for, is not kept.
    if (!options.warm_start || q_.size() != layout_.q_count || !is_finite(q_))
      begin_anew(options.seed + 0x9e3779b97f4a7c15 * (bucket.index() + 1) + iteration);
    each_block([](auto, auto, auto q) { orthogonalise(q); });
    // Both in one message: the rest, and P, of which only the direction counts.
    each_block([](auto m, auto p, auto q) { p.noalias() = m * q; });
    gather_rest();
    bucket.average(BufferView(first_), self).wait();
    each_block([](auto m, auto p, auto q) {
      orthogonalise(p);
      q.noalias() = m.transpose() * p;
    });
    return bucket.average(BufferView(q_), self).then([self, bucket, options](const auto&) {
      self->put_out(bucket.buffer(), options);
      return bucket.buffer();
    });
  }

 private:
  using Map = Eigen::Map<Matrix<T>>;

  template <class Use>
  void each_block(Use use) {
    for (const Block& one : layout_.blocks) {
      const auto index = [](std::size_t n) { return static_cast<Eigen::Index>(n); };
      use(Map(values_.data() + one.offset, index(one.rows), index(one.columns)),
          Map(first_.data() + one.p, index(one.rows), index(one.rank)),
          Map(q_.data() + one.q, index(one.columns), index(one.rank)));
    }
  }
  static void orthogonalise(Map matrix) {
    // Its squares may be out of range.
    const T greatest = matrix.cwiseAbs().maxCoeff();
    if (greatest > 0 && std::isfinite(greatest)) matrix /= greatest;
    const Eigen::HouseholderQR<Matrix<T>> qr(matrix);
    matrix = qr.householderQ() * Matrix<T>::Identity(matrix.rows(), matrix.cols());
  }

  void take_in(const BufferView& buffer, const PowerSgdOptions& options) {
    const auto* const from = static_cast<const T*>(buffer.data);
    values_.assign(from, from + buffer.count);
    values_.resize(layout_.padded);
    if (!options.error_feedback) return;
    error_.resize(values_.size());
    std::ranges::transform(values_, error_, values_.begin(), std::plus());
    error_ = values_;
  }
  void begin_anew(std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<T> normal;
    q_.resize(layout_.q_count);
    for (T& value : q_) value = normal(engine);
  }
  void gather_rest() {
    auto to = first_.begin() + static_cast<std::ptrdiff_t>(layout_.p_count);
    for (const Range& one : layout_.rest)
      to = std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(one.offset), one.count, to);
  }
  void put_out(const BufferView& buffer, const PowerSgdOptions& options) {
    each_block([](auto m, auto p, auto q) { m.noalias() = p * q.transpose(); });
    auto from = first_.begin() + static_cast<std::ptrdiff_t>(layout_.p_count);
    for (const Range& one : layout_.rest) {
      std::copy_n(from, one.count, values_.begin() + static_cast<std::ptrdiff_t>(one.offset));
      from += static_cast<std::ptrdiff_t>(one.count);
    }
    std::copy_n(values_.begin(), buffer.count, static_cast<T*>(buffer.data));
    if (!options.error_feedback) return;
    std::ranges::transform(error_, values_, error_.begin(), std::minus());
    // What went as it is has lost nothing.
    for (const Range& one : layout_.rest)
      std::fill_n(error_.begin() + static_cast<std::ptrdiff_t>(one.offset), one.count, T{0});
    if (!is_finite(error_)) error_.assign(error_.size(), T{0});
  }
  static bool is_finite(const std::vector<T>& values) {
    return std::ranges::all_of(values, [](T value) { return std::isfinite(value); });
  }

  Layout layout_;
  std::vector<T> values_, error_, first_, q_;
};

class PowerSgd {
 public:
  explicit PowerSgd(const PowerSgdOptions& options) : options_(options) {}

  Future<BufferView> operator()(const GradBucket& bucket) {
    const std::uint64_t iteration = iteration_;
    if (bucket.is_last()) ++iteration_;
    const DataType dtype = bucket.buffer().dtype;
    if (iteration >= options_.start_iteration) {
      if (dtype == DataType::float32) return reduce(floats_, bucket, iteration);
      if (dtype == DataType::float64) return reduce(doubles_, bucket, iteration);
    }
    return all_reduce_hook()(bucket);
  }

 private:
  template <class T>
  using All = std::vector<std::shared_ptr<Factors<T>>>;  // by the numbers of buckets

  template <class T>
  Future<BufferView> reduce(All<T>& all, const GradBucket& bucket, std::uint64_t iteration) {
    if (all.size() <= bucket.index()) all.resize(bucket.index() + 1);
    std::shared_ptr<Factors<T>>& one = all[bucket.index()];
    if (!one) one = std::make_shared<Factors<T>>();
    return one->reduce(bucket, options_, iteration, one);
  }

  PowerSgdOptions options_;
  std::uint64_t iteration_ = 0;
  All<float> floats_;
  All<double> doubles_;
};

}  // namespace

CommHook power_sgd(const PowerSgdOptions& options) {
  const auto refuse = [](const char* problem, const char* remedy) {
    throw UsageError(problem, {.operation = "power_sgd", .remedy = remedy});
  };
  if (options.rank == 0) refuse("matrices of rank 0 hold nothing", "give a rank of 1 or more");
  if (options.start_iteration < 2 && (options.error_feedback || options.warm_start))
    refuse("PowerSGD begins before the buckets are what they stay",
           "give a start_iteration of 2 or more, or do without error_feedback and warm_start");
  return detail::HostHook{"power_sgd", [state = std::make_shared<PowerSgd>(options)](
                                           const GradBucket& bucket) { return (*state)(bucket); }};
}

}  // namespace hymn::training
