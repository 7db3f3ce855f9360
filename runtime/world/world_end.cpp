// How a world ends on this rank, and what must not end it.
#include <algorithm>

#include "base/callback_scope.hpp"
#include "base/keep_for_ever.hpp"
#include "recorder/making_note.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn::detail {
namespace {

// Tags of the world's exchange, beside those of world_meeting.cpp and job_map.cpp.
constexpr std::uint64_t tag_end = 2;
constexpr std::uint64_t tag_end_agreed = 8;

// How long ranks wait for each other at the very end: long enough for an uneven last step, short
// enough not to look like a hang.
constexpr Duration longest_end = std::chrono::seconds(30);
constexpr Duration longest_end_of_failed = std::chrono::seconds(3);
constexpr Duration longest_last_moment = std::chrono::seconds(1);

// Whoever has called back needs the world afterwards, and may be a thread that ends with it.
void require_no_callback(int rank) {
  if (!CallbackScope::is_inside()) return;
  throw UsageError(
      "a world cannot be ended in a callback: a function chained to a future, or a completion hook",
      {.rank = rank,
       .operation = "World::destroy",
       .remedy =
           "end it where the callback was asked for, after waiting for the work or future; or "
           "on a thread of the application's own"});
}

}  // namespace

// Rank 0 hears from everybody and tells everybody; and then again, that all have heard it. A rank
// that has failed still says so, but does not wait long for the others: they may never come.
WorldEnd WorldState::agree_to_end() {
  const bool together =
      std::any_of(mechanisms_.begin(), mechanisms_.end(),
                  [](const auto& mechanism) { return mechanism->ends_together(); });
  if (!together) return context_.life.has_failed() ? WorldEnd::together : WorldEnd::clean;
  if (context_.life.is_leaving() || !exchange_->is_open() || !context_.life.may_drive())
    return WorldEnd::apart;
  Duration limit = context_.life.has_failed() ? longest_end_of_failed : longest_end;
  if (!context_.settings.default_timeout.is_none())
    limit = std::min(limit, context_.settings.default_timeout.duration());
  Packer word;
  word.number(context_.life.has_failed() ? 1 : 0);
  const Membership& everybody = default_group_.membership();
  MakingNote note(context_.recorder, everybody.uid, everybody.ranks, MakingKind::end);
  note.set_made();  // whatever comes of it, this rank goes on
  try {
    Patience all_come = context_.patience("ending the world", limit);
    all_come.long_wait = context_.inquiry.long_wait(all_come.purpose);
    const auto words =
        all_gather(*exchange_, default_group_.membership().ranks, tag_end, word.packed(), all_come);
    // Who came late may find the words of all, who have given up meanwhile and are gone.
    Patience still_there = context_.patience("ending the world", limit);
    still_there.is_hopeless = [this](int rank) {
      return context_.peers.is_hopeless(rank) || context_.peers.is_over(rank);
    };
    // Counted when nobody sends but for this: what each has sent for it the other has received.
    Packer counted;
    counted.number(left_over());
    const auto counts = all_gather(*exchange_, default_group_.membership().ranks, tag_end_agreed,
                                   counted.packed(), still_there);
    const bool clean = std::all_of(words.begin(), words.end(),
                                   [](const Bytes& said) { return Unpacker(said).number() == 0; });
    if (!clean) return WorldEnd::together;
    std::uint64_t sum = 0;
    for (const Bytes& said : counts) sum += Unpacker(said).number();
    return sum == 0 ? WorldEnd::clean : WorldEnd::littered;
  } catch (const TimeoutError& error) {
    // That a rank has failed was told when it did; that this one is late, by those who were not,
    // and may be gone by now.
    const auto& missing = error.context().missing;
    const bool is_known = !missing.empty() && std::ranges::all_of(missing, [this](int rank) {
      return rank == context_.rank() || context_.peers.is_hopeless(rank) ||
             context_.peers.is_over(rank);
    });
    context_.logger.warning(error.what(), is_known);
    return WorldEnd::apart;
  } catch (const std::exception& error) {
    context_.logger.warning(error.what());
    return WorldEnd::apart;
  }
}

std::uint64_t WorldState::left_over() const {
  std::uint64_t sum = 0;
  for (const auto& mechanism : mechanisms_) sum += mechanism->left_over();
  return sum;
}

// The others come to finalize as well, and may not have made the call yet that this rank waits for.
void WorldState::finish_works() noexcept {
  try {
    const Patience moment =
        context_.patience("finishing before MPI is finalized", longest_last_moment);
    PatientWait(moment).until([this] { return !context_.engine->has_works(); });
  } catch (const std::exception&) {
    // It is told by the works.
  }
}

void WorldState::destroy() {
  if (context_.life.is_destroyed()) return;
  require_no_callback(context_.rank());
  if (!context_.life.begin_to_end()) return;
  groups_.finish();
  const std::exception_ptr error = groups_.factory().destroy_all();
  if (error || !context_.engine->is_drained()) context_.life.mark_failed();
  if (metrics_file_) metrics_file_->write();
  control_.say_goodbye();
  const WorldEnd end = agree_to_end();
  mux_->end_mail();
  // Abandoned operations outlive their world: MPI may still write to what they hold.
  keep_for_ever(context_.engine->shut_down());
  for (const auto& mechanism : mechanisms_) mechanism->shut_down(end);
  control_.end();
  if (error) std::rethrow_exception(error);
}

}  // namespace hymn::detail
