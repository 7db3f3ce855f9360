// Ranks with unequal inputs keep in step: those that have run out shadow the collectives of those
// that still run. docs/join.md tells how, and which of the ways to use.
#pragma once

#include "hymn/standard.hpp"  // first

#include <any>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "hymn/process_group.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

namespace detail {
class JoinState;
}

/// What is passed to the hooks of all joinables of a Join: values of any types that can be copied,
/// found by their types. Types of one's own keep apart what is meant for different joinables:
///
///     struct Shadowing { int all_reduces = 1; };
///     Join join({&model}, {.arguments = {Shadowing{.all_reduces = 2}}});
class JoinArguments {
 public:
  JoinArguments() = default;
  template <class... Values>
    requires(sizeof...(Values) > 0 &&
             (!std::same_as<std::remove_cvref_t<Values>, JoinArguments> && ...))
  JoinArguments(Values&&... values) {  // NOLINT: a list of values reads as its arguments
    (values_.emplace_back(std::forward<Values>(values)), ...);
  }

  /// The first value of this type, or null.
  template <class Value>
  const Value* find() const {
    for (const std::any& value : values_)
      if (const auto* found = std::any_cast<Value>(&value)) return found;
    return nullptr;
  }
  template <class Value>
  Value get_or(Value otherwise) const {
    const Value* found = find<Value>();
    return found != nullptr ? *found : std::move(otherwise);
  }

 private:
  std::vector<std::any> values_;
};

/// What a rank does for one joinable when it has run out of input.
class HYMN_API JoinHook {
 public:
  JoinHook() = default;
  JoinHook(const JoinHook&) = delete;
  JoinHook& operator=(const JoinHook&) = delete;
  virtual ~JoinHook();

  /// Called once for each iteration of those that still run: makes the same collectives as they do
  /// in one iteration, on the same groups and in the same order, with values that leave results
  /// unchanged.
  virtual void main_hook() {}
  /// Called once on every rank when all have run out. `is_last_joiner`: no rank of the joinable's
  /// group had more input than this one. It may make collectives: all ranks are here.
  virtual void post_hook([[maybe_unused]] bool is_last_joiner) {}
};

/// Something that makes collectives in each iteration, and can be shadowed. It calls Join::notify
/// before the first collective of an iteration.
class HYMN_API Joinable {
 public:
  Joinable() = default;
  Joinable(const Joinable&) = delete;
  Joinable& operator=(const Joinable&) = delete;
  virtual ~Joinable();

  /// The hook for one run of a join; never null.
  virtual std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) = 0;
  /// On which it makes its collectives.
  virtual ProcessGroup join_group() const = 0;

 private:
  friend class Join;
  friend class detail::JoinState;
  detail::JoinState* join_ = nullptr;  // while it takes part in the run of one
};

/// What averages are divided by.
enum class JoinDivisor : std::uint8_t {
  initial,  ///< all ranks of the group, as if those that have run out gave zeros
  active,   ///< the ranks that still have input
};

struct JoinOptions {
  /// Off: run() only runs its body; the same on all ranks.
  bool enable = true;
  /// All ranks throw EarlyTermination as soon as one of them has run out before the others; the
  /// same on all ranks (if not: UsageError on all).
  bool throw_on_early_termination = false;
  JoinDivisor divisor = JoinDivisor::initial;  ///< the same on all ranks
  JoinArguments arguments{};
};

/// What a rank that has run out of input gives in Join::shadow_all where nothing is reduced.
/// Numbers are converted to the type of the call; one that it cannot hold, as -1 for unsigned
/// integers, is an UnsupportedError when such a call comes.
struct ShadowOptions {
  /// Every element that it gives in all_gather, gather and all_to_all.
  double fill = 0;
  /// Every element that it gives as the root of broadcast and scatter. Unset: it has nothing to
  /// give, and such a call is an UnsupportedError.
  std::optional<double> root_fill{};
};

/// With JoinOptions::throw_on_early_termination: thrown on all ranks of the join at the same point,
/// so that all groups can still be used. context().missing are the ranks that have run out.
class HYMN_API EarlyTermination : public UsageError {
 public:
  using UsageError::UsageError;
  ~EarlyTermination() override;
};

/// A rank that has run out of input.
struct JoinedRank {
  int rank = -1;                 ///< global
  std::uint64_t iterations = 0;  ///< that it has made itself
  TimePoint since{};             ///< when this rank learnt of it
};

/// How far the ranks of a join have come.
struct JoinStatus {
  std::uint64_t iterations = 0;      ///< of the rank that has made most
  int active = 0;                    ///< ranks that still have input
  std::vector<JoinedRank> joined{};  ///< the others, in the order in which they ran out
};

/// Runs a loop over inputs of which ranks may have different numbers:
///
///     Join join({&model, &optimizer});
///     join.run([&] {
///       for (const Batch& batch : my_batches) model.step(batch);
///     });
///
/// All ranks of the first joinable's group make it and run it, with the same options and the same
/// joinables in the same order; the groups of the others must lie within that one. A rank outside
/// the first group just runs the body; hooks of joinables in whose group a rank is not are neither
/// made nor called on it. Joinables must live as long as the Join. One all_reduce of twelve bytes
/// on the first group is made for each iteration, and one all_gather more when ranks have run out.
///
/// Thread safety: run() and notify() are for one thread at a time, as collectives are; status() may
/// be asked by any.
class HYMN_API Join {
 public:
  /// Throws UsageError when there are no joinables, or null among them.
  explicit Join(std::vector<Joinable*> joinables, JoinOptions options = {});
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;
  ~Join();

  /// Runs the body; then shadows the ranks that still run theirs, until all have run out, and calls
  /// the post-hooks. May be called again, for the next epoch.
  ///
  /// An exception of the body or of a hook leaves this rank out of step: all groups of the
  /// joinables are given up, with this rank's name and the exception's words, so that the others
  /// get an AbortedError instead of waiting; and it is thrown on. Throws UsageError, before
  /// anything is sent, when a joinable already takes part in another run, or has a group that does
  /// not lie within the first one; EarlyTermination; and whatever collectives throw.
  void run(const std::function<void()>& body);

  /// How far the ranks are in this run, or were in the last one, as of the last iteration of this
  /// rank, its own or shadowed.
  JoinStatus status() const;

  /// Without joinables: runs the body, and then, where this rank has run out of input, makes
  /// whatever collectives the other members of these groups still make, with what leaves results
  /// unchanged (zeros, where nothing is reduced), until all members have run out. Returns how many
  /// those were. It learns of them from what the others record, so that these pay nothing.
  ///
  /// All members of these groups call it, each with all of the groups that it is in; others that it
  /// gives are left out. docs/join.md tells which calls can be shadowed. Throws, before the body,
  /// UnsupportedError without control plane or flight recorder, and UsageError for a group that has
  /// been destroyed, is given twice, or takes part in a shadow_all around this one. An exception
  /// afterwards gives the groups up, as one in run() does: of the body, of a collective, or because
  /// a call cannot be shadowed; and TimeoutError when the others neither make a collective nor run
  /// out within a group's timeout.
  static std::uint64_t shadow_all(std::span<const ProcessGroup> groups,
                                  const std::function<void()>& body,
                                  const ShadowOptions& options = {});
  static std::uint64_t shadow_all(std::initializer_list<ProcessGroup> groups,
                                  const std::function<void()>& body,
                                  const ShadowOptions& options = {}) {
    return shadow_all(std::span<const ProcessGroup>(groups.begin(), groups.size()), body, options);
  }

  /// How many members of the group have not run out, for the body of shadow_all: one all_reduce of
  /// four bytes, which all of them make, and the others shadow. The same on all that call it.
  /// Elsewhere: the size of the group.
  static int count_active(const ProcessGroup& group);
  /// Who stands in for `preferred` (a global rank) as a root: itself while it has not run out, else
  /// the first member after it, in the order of ranks and around, that has not. Likewise one
  /// all_reduce of four bytes, with the same answer on all that call it. Throws UsageError for a
  /// rank that is not a member.
  static int acting_root(const ProcessGroup& group, int preferred);
  /// The reduction that averages over the members that have not run out, for element types that can
  /// hold fractions: avg while none has, else a premul_sum. Likewise one all_reduce.
  static ReduceOp average(const ProcessGroup& group);

  /// To be called by each joinable before its first collective of an iteration. Only that of the
  /// first joinable does anything: it counts who still runs. Outside of a run, and where joins are
  /// not enabled, it costs one branch.
  HYMN_INLINE static void notify(Joinable& joinable) {
    if (joinable.join_ != nullptr) [[unlikely]]
      notify_running(joinable);
  }

  /// Whether the joinable takes part in a run now.
  static bool is_running(const Joinable& joinable) { return joinable.join_ != nullptr; }
  /// By what a sum on the joinable's group is to be divided in this iteration, at least 1; the same
  /// on all ranks of the group. Outside of a run: the size of the group.
  static int divisor(const Joinable& joinable);
  /// As above, in this iteration, and without a message. In post-hooks, where all have run out, and
  /// outside of a run: `preferred`.
  static int acting_root(const Joinable& joinable, int preferred);
  /// The reduction that averages by divisor(), for element types that can hold fractions: avg where
  /// all ranks of the group count, so that the bits are those of a loop without a join; else a
  /// premul_sum.
  static ReduceOp average(const Joinable& joinable);

 private:
  static void notify_running(Joinable& joinable);
  std::unique_ptr<detail::JoinState> state_;
};

}  // namespace hymn
