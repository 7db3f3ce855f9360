// Which way an operation should take, from nothing but values: what is asked, how the ranks lie on
// their machines, what has been measured. `hymn explain` asks it for machines that are not here;
// the selector asks it for the costs of the algorithms that a group really has.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/private.hpp"
#include "collectives/plan_query.hpp"
#include "p2p/verdict.hpp"
#include "topology/placement.hpp"

namespace hymn {

class TuningTable;

/// When the peer memory of GPUs may be used.
enum class PeerUse : unsigned char {
  measured,  ///< for what the tuning table has of it
  named,     ///< wherever it can be: the path setting names it
  c10d,      ///< as HYMN_P2P_COMPAT=c10d says: for less, and for that always
};

/// What a plan depends on beside the query; the same on all members of a group.
struct PlanContext {
  GroupLayout layout;
  std::vector<std::shared_ptr<const Machine>> machines;  ///< by HostSummary::machine
  std::shared_ptr<const TuningTable> tuning;             ///< null: none fits these machines
  PeerUse peers = PeerUse::measured;
};

/// A predicted time, and what the prediction stands on.
struct Cost {
  double seconds = 0;  ///< 0: not known
  std::string source;
  bool is_settled = false;  ///< it is taken whatever others cost
};

/// What is known of one algorithm before any rank runs.
struct PathModel {
  std::string_view path;       ///< as HYMN_PATH names it
  std::string_view algorithm;  ///< "<collective>_<method>"; "*_<method>" stands for all collectives
  bool in_this_build = true;   ///< otherwise its cost is known, but it cannot run
  Verdict (*can_run)(const PlanQuery&, const PlanContext&) = nullptr;
  double (*seconds)(const PlanQuery&, const PlanContext&) = nullptr;
  std::string_view source;         ///< of the figures in `seconds`
  bool (*only)(OpType) = nullptr;  ///< which collectives a "*" stands for; null: all that
                                   ///< every path has

  HYMN_PRIVATE bool serves(OpType type) const;
};

/// All that hymn knows of, in order of preference where no times are known.
HYMN_PRIVATE std::span<const PathModel> path_models();

/// "<collective>_<method>": what an algorithm that serves several collectives is called for one of
/// them, in tables, settings and explanations. "move_pairwise" is "broadcast_pairwise" for
/// broadcast. Sends and receives keep the algorithm's own name, which must be static; so is the
/// result.
std::string_view algorithm_for(std::string_view name, OpType type);

/// What the tuning table has of it; nothing where it was not measured.
std::optional<double> measured_seconds(std::string_view path, std::string_view algorithm,
                                       const PlanQuery& query, const PlanContext& context);

/// The cost of an algorithm of a group: measured if the tuning table has it, else by its model.
/// `algorithm` is named as algorithm_for() does.
HYMN_PRIVATE Cost predict(std::string_view path, std::string_view algorithm, const PlanQuery& query,
                          const PlanContext& context);

/// Whether a candidate overtakes one that stands before it in the order of preference: because it
/// is settled, or where both times are known.
HYMN_PRIVATE bool is_faster(const Cost& cost, const Cost& other);

}  // namespace hymn
