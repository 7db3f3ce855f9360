// Which way an operation should take, from nothing but values: what is asked, how the ranks lie on
// their machines, what has been measured. `hymn explain` asks it for machines that are not here;
// the selector asks it for the costs of the algorithms that a group really has.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/private.hpp"
#include "collectives/algorithm_model.hpp"

namespace hymn {

/// A predicted time, and what the prediction stands on.
struct Cost {
  double seconds = 0;  ///< 0: not known
  std::string source;
  bool is_settled = false;  ///< it is taken whatever others cost
};

/// All that hymn knows of, in order of preference where no times are known.
HYMN_PRIVATE std::span<const AlgorithmModel* const> algorithm_models();

/// Otherwise its cost is known, but it cannot run.
HYMN_PRIVATE bool is_in_this_build(const AlgorithmModel& model);

/// What the tuning table has of it; nothing where it was not measured.
std::optional<double> measured_seconds(const AlgorithmModel& model, const PlanQuery& query,
                                       const PlanContext& context);

/// What the algorithm costs: as measured if the tuning table has it, else by its model. Nothing is
/// known of ranks that are nowhere.
HYMN_PRIVATE Cost predict(const AlgorithmModel& model, const PlanQuery& query,
                          const PlanContext& context);

/// Whether a candidate overtakes one that stands before it in the order of preference: because it
/// is settled, or where both times are known.
HYMN_PRIVATE bool is_faster(const Cost& cost, const Cost& other);

}  // namespace hymn
