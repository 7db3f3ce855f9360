// One collective of the program: whether hymn carries it, and how.
#pragma once

#include <exception>
#include <type_traits>

#include "hymn/error.hpp"
#include "preload/errors.hpp"
#include "preload/policy.hpp"
#include "preload/reductions.hpp"
#include "preload/session.hpp"
#include "preload/staging.hpp"

namespace hymn::preload {

/// What has become of a collective.
struct Outcome {
  Reason reason = Reason::carried;  ///< another one: nothing was done, and MPI is to carry it
  int code = MPI_SUCCESS;
};

class Attempt {
 public:
  Attempt(Session& session, Call call) : session_(session), call_(call) {}

  Session& session() { return session_; }
  /// What judge() was told.
  std::size_t bytes() const { return bytes_; }
  /// Of what hymn has been judged by; for a report only.
  double expected_ratio() const;
  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  int world_rank(int rank) const { return comm_->world_rank(rank); }
  bool has(int rank) const { return rank >= 0 && rank < comm_->size(); }
  /// As of Communicator.
  bool keeps_order() const { return comm_->keeps_order(); }
  int rank_of_member(std::size_t place) const { return comm_->rank_of_member(place); }
  std::size_t own_place() const { return comm_->own_place(); }

  /// Finds the communicator. False, with the reason: nothing of it is carried.
  bool find(MPI_Comm comm);
  /// Why it is left to MPI; counts it, and makes the group when it is time, together with all
  /// ranks: what MPI would refuse on this rank alone must not come here. `bytes`: as Sight::bytes;
  /// `blocks`: of so many the largest buffer is.
  Reason judge(std::size_t bytes, int blocks = 1);
  /// MPI, to whom it was left, says that something is wrong with it.
  void was_refused(int code);
  /// Likewise of its operation, and first; `in_order`: its result depends on the order of ranks in
  /// any case.
  Reason judge(const Reduction& reduction, bool in_order = false) const;
  /// Where judge() could not know them: the bytes of all ranks together, as the root has told.
  Reason judge_told(std::size_t bytes);
  Outcome left() const { return {reason_, MPI_SUCCESS}; }
  static Outcome left(Reason reason) { return {reason, MPI_SUCCESS}; }

  /// Has the group carry out what `work(group)` asks of it; `work` may return a Reason, the same on
  /// all ranks. What the group refuses is refused on all ranks, before anything is sent; other
  /// failures are the program's to hear of.
  template <class Work>
  Outcome run(Work work) {
    try {
      if constexpr (std::is_same_v<decltype(work(comm_->group())), Reason>) {
        return left(work(comm_->group()));
      } else {
        work(comm_->group());
        return {};
      }
    } catch (const UnsupportedError&) {
      return left(Reason::unsupported);
    } catch (const MpiFailure& failure) {
      comm_->give_up();
      PMPI_Comm_call_errhandler(comm_->handle(), failure.code);
      return {Reason::carried, failure.code};
    } catch (const std::exception& error) {
      comm_->give_up();
      return {Reason::carried, report_error(comm_->handle(), error)};
    }
  }

 private:
  /// What moves more may have to be packed on some ranks, and memory for that be wanting there,
  /// after the others have begun.
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;

  Reason judge_size(int blocks) const;

  Session& session_;
  Call call_;
  Communicator* comm_ = nullptr;
  Reason reason_ = Reason::bad_arguments;
  bool is_counted_ = false;
  std::size_t bytes_ = 0;
};

template <Call call>
struct Tag {};

// One for each collective that is carried: carry*.cpp.
#define HYMN_CALL(kind, name, parameters, facts, ...) \
  HYMN_ATTEMPT_##kind(name, HYMN_UNPACK parameters)
#define HYMN_UNPACK(...) __VA_ARGS__
#define HYMN_ATTEMPT_carried(name, ...) \
  Outcome attempt(Tag<Call::name>, Attempt& call, __VA_ARGS__);
#define HYMN_ATTEMPT_left(...)
#define HYMN_ATTEMPT_message(...)
#define HYMN_ATTEMPT_completion(...)
#define HYMN_ATTEMPT_poll(...)
#define HYMN_ATTEMPT_other(...)
#include "preload/calls.inc"
#undef HYMN_CALL
#undef HYMN_UNPACK
#undef HYMN_ATTEMPT_carried
#undef HYMN_ATTEMPT_left
#undef HYMN_ATTEMPT_message
#undef HYMN_ATTEMPT_completion
#undef HYMN_ATTEMPT_poll
#undef HYMN_ATTEMPT_other

}  // namespace hymn::preload
