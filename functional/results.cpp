// What comes out of a call, by shapes alone: all that is wrong with it is found here.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "functional/collective.hpp"
#include "functional/fail.hpp"

namespace hymn::functional {
namespace detail {

ErrorContext context_of(const Collective& collective, const Where& where, std::string remedy) {
  return {.rank = where.rank(),
          .group = where.tag().empty() ? listed(where.ranks()) : where.tag(),
          .operation = std::string(traits_of(collective.operation).name),
          .remedy = std::move(remedy)};
}

std::size_t dimension_of(const Collective& collective, std::size_t array, std::size_t dimensions) {
  const std::int64_t dimension = collective.dimensions.at(array);
  return static_cast<std::size_t>(dimension < 0 ? dimension + static_cast<std::int64_t>(dimensions)
                                                : dimension);
}

}  // namespace detail

namespace {

using detail::listed;

/// One call, with what its errors tell of it.
class Checked {
 public:
  Checked(const Collective& collective, const Where& where)
      : collective_(collective), where_(where), traits_(traits_of(collective.operation)) {}

  std::vector<ArraySpec> results(std::span<const ArraySpec> inputs) const {
    require_member();
    require_inputs(inputs);
    if (reduces(traits_.type)) require_reduction(inputs.front().dtype);
    std::vector<ArraySpec> results(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < results.size(); ++i) change(results[i], i);
    return results;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem, const std::string& remedy = {}) const {
    throw UsageError(problem, detail::context_of(collective_, where_, remedy));
  }

  void require_member() const {
    if (where_.ranks().empty()) refuse("there are no ranks to make the call");
    if (!where_.has_this_rank())
      refuse("this rank is not one of " + listed(where_.ranks()),
             "only the ranks of the group make its calls");
  }

  void require_inputs(std::span<const ArraySpec> inputs) const {
    if (inputs.empty() || (!traits_.is_coalesced && inputs.size() != 1))
      refuse("it was given " + std::to_string(inputs.size()) + " arrays");
    for (const ArraySpec& input : inputs)
      if (input.dtype != inputs.front().dtype)
        refuse("arrays of " + std::string(to_string(inputs.front().dtype)) + " and of " +
                   std::string(to_string(input.dtype)) + " cannot be coalesced",
               "make a call for each dtype");
    if (traits_.has_dimension && collective_.dimensions.size() != inputs.size())
      refuse(std::to_string(collective_.dimensions.size()) + " dimensions for " +
                 std::to_string(inputs.size()) + " arrays",
             "give one for each");
  }

  // As docs/dtypes.md has it.
  void require_reduction(DataType dtype) const {
    const ReduceTraits& reduction = traits_of(collective_.reduction.kind());
    const DataFamily family = traits_of(dtype).family;
    const bool is_custom = reduction.family == ReduceFamily::custom;
    const bool has_no_bits = family == DataFamily::floating || family == DataFamily::complex;
    const bool wants_bits =
        reduction.family == ReduceFamily::bitwise || reduction.family == ReduceFamily::logical;
    const bool is_scaled = collective_.reduction.kind() == ReduceKind::avg ||
                           collective_.reduction.kind() == ReduceKind::premul_sum;
    const bool is_refused =
        reduction.family == ReduceFamily::opaque || (family == DataFamily::float8 && !is_custom) ||
        (has_no_bits && wants_bits) ||
        (family == DataFamily::complex && reduction.family == ReduceFamily::order) ||
        (family == DataFamily::boolean && is_scaled);
    if (is_refused)
      throw UnsupportedError(
          std::string(to_string(dtype)) + " has no reduction " + std::string(reduction.name),
          detail::context_of(collective_, where_, "see docs/dtypes.md"));
    if (family == DataFamily::integer && collective_.reduction.kind() == ReduceKind::premul_sum)
      require_factor(dtype);
  }

  void require_factor(DataType dtype) const {
    const double factor = collective_.reduction.factor();
    const bool has_sign = traits_of(dtype).name.front() == 'i';
    const int bits = static_cast<int>(8 * size_of(dtype)) - (has_sign ? 1 : 0);
    const double limit = std::ldexp(1.0, bits);
    const bool fits = factor < limit && factor >= (has_sign ? -limit : 0.0);
    if (!fits || std::trunc(factor) != factor)
      refuse("the factor " + std::to_string(factor) + " is no " + std::string(to_string(dtype)));
  }

  void change(ArraySpec& array, std::size_t index) const {
    switch (collective_.operation) {
      case Operation::all_reduce:
      case Operation::all_reduce_coalesced:
        return;
      case Operation::all_gather_tensor:
      case Operation::all_gather_into_tensor_coalesced:
        array.shape[dimension(array, index)] *= where_.size();
        return;
      case Operation::reduce_scatter_tensor:
      case Operation::reduce_scatter_tensor_coalesced:
        return scatter(array, dimension(array, index));
      case Operation::broadcast:
        return require_root();
      case Operation::all_to_all_single:
        return exchange(array);
      case Operation::permute_tensor:
        return require_permutation();
    }
  }

  std::size_t dimension(const ArraySpec& array, std::size_t index) const {
    const auto dimensions = static_cast<std::int64_t>(array.shape.size());
    const std::int64_t dimension = collective_.dimensions[index];
    if (dimension < -dimensions || dimension >= dimensions)
      refuse("an array of " + std::to_string(dimensions) + " dimensions has no dimension " +
             std::to_string(dimension));
    return detail::dimension_of(collective_, index, array.shape.size());
  }

  void scatter(ArraySpec& array, std::size_t dimension) const {
    std::int64_t& size = array.shape[dimension];
    if (size % where_.size() != 0)
      refuse("dimension " + std::to_string(dimension) + " of the shape " + listed(array.shape) +
                 " has not " + std::to_string(where_.size()) + " equal parts",
             "pad it, or scatter another dimension");
    size /= where_.size();
  }

  void require_root() const {
    for (const int rank : where_.ranks())
      if (rank == collective_.root) return;
    refuse(
        "the root " + std::to_string(collective_.root) + " is not one of " + listed(where_.ranks()),
        "roots are global ranks");
  }

  void exchange(ArraySpec& array) const {
    if (array.shape.empty()) refuse("an array without dimensions cannot be split");
    const Splits& in = collective_.input_splits;
    const Splits& out = collective_.output_splits;
    if (in.has_value() != out.has_value())
      refuse("only one side has split sizes", "give those of both sides, or of none");
    if (!in.has_value()) return require_equal_parts(array);
    require_splits(*in, "input");
    require_splits(*out, "output");
    const std::int64_t given = std::accumulate(in->begin(), in->end(), std::int64_t{0});
    if (given != array.shape[0])
      refuse("the input's split sizes " + listed(*in) + " add up to " + std::to_string(given) +
                 ", and dimension 0 of the shape " + listed(array.shape) + " is " +
                 std::to_string(array.shape[0]),
             "split all of it");
    const auto own = static_cast<std::size_t>(std::ranges::find(where_.ranks(), where_.rank()) -
                                              where_.ranks().begin());
    if ((*in)[own] != (*out)[own])
      refuse("this rank gives itself " + std::to_string((*in)[own]) + ", and takes " +
                 std::to_string((*out)[own]),
             "input_splits[i] of rank j are output_splits[j] of rank i");
    array.shape[0] = std::accumulate(out->begin(), out->end(), std::int64_t{0});
  }

  void require_equal_parts(const ArraySpec& array) const {
    if (array.shape[0] % where_.size() != 0)
      refuse("dimension 0 of the shape " + listed(array.shape) + " has not " +
                 std::to_string(where_.size()) + " equal parts",
             "give split sizes");
  }

  void require_splits(const std::vector<std::int64_t>& splits, const std::string& side) const {
    if (splits.size() != static_cast<std::size_t>(where_.size()))
      refuse(std::to_string(splits.size()) + " split sizes of the " + side + " for " +
                 std::to_string(where_.size()) + " ranks",
             "give one for each rank of the group");
    for (const std::int64_t size : splits)
      if (size < 0) refuse("the " + side + "'s split sizes " + listed(splits) + " are below 0");
  }

  void require_permutation() const {
    std::vector<bool> seen(where_.ranks().size());
    bool is_permutation = collective_.destinations.size() == seen.size();
    for (const int rank : collective_.destinations) {
      const bool is_new =
          rank >= 0 && rank < where_.size() && !seen[static_cast<std::size_t>(rank)];
      is_permutation = is_permutation && is_new;
      if (is_new) seen[static_cast<std::size_t>(rank)] = true;
    }
    if (!is_permutation)
      refuse("the destinations " + listed(collective_.destinations) + " are no permutation of " +
                 std::to_string(where_.size()) + " ranks",
             "rank i of the group sends to destinations[i], another one for each");
  }

  const Collective& collective_;
  const Where& where_;
  const OperationTraits& traits_;
};

}  // namespace

std::vector<ArraySpec> results_of(const Collective& collective, std::span<const ArraySpec> inputs,
                                  const Where& where) {
  return Checked(collective, where).results(inputs);
}

}  // namespace hymn::functional
