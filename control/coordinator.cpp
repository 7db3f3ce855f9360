#include "control/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace hymn::control {
namespace {

// Of how many calls what was called is kept, to be compared with what comes later.
constexpr std::size_t kept_notes = 16384;
// Of how many groups it is kept how far a rank has come; those made first live longest.
constexpr std::size_t kept_marks = 4096;
constexpr std::size_t kept_first_marks = 1024;

/// Where others are to blame that is said, and no more: their story would be told within the
/// story of each that leaves because of them, and grow with every one.
std::string words_of(const Goodbye& goodbye, int rank) {
  std::string words = "it has ended its world";
  const auto& culprits = goodbye.culprits;
  if (!goodbye.broke_off) return words + (culprits.empty() ? "" : " after an error");
  const bool is_own = culprits.empty() || std::ranges::find(culprits, rank) != culprits.end();
  return words + " because of an error" + (is_own ? ": " + goodbye.why : "");
}

}  // namespace

Coordinator::Coordinator(int size, CoordinatorOptions options, Send send)
    : seats_(static_cast<std::size_t>(size)), options_(options), send_(std::move(send)) {}

void Coordinator::join(int rank, TimePoint now) {
  if (!is_rank(rank)) return;
  if (!std::exchange(anybody_came_, true)) first_join_ = now;
  Seat& own = seat(rank);
  own.present = own.came = true;
  own.last_sign = now;
  if (own.state == PeerState::stalled || own.state == PeerState::lost) {
    own.state = PeerState::alive;
    own.detail.clear();
    send_to_others(rank, News{news_of(rank)});
  }
  for (int other = 0; other < static_cast<int>(seats_.size()); ++other)
    if (seat(other).state != PeerState::alive) send_(rank, News{news_of(other)});
  for (const auto& [uid, abort] : aborted_) send_(rank, abort);
  if (const auto dump = std::exchange(own.early_dump, {})) send_(rank, *dump);
  answer_flushes();
}

void Coordinator::receive(int rank, Message message, TimePoint now) {
  if (!is_rank(rank)) return;
  seat(rank).last_sign = now;
  if (seat(rank).state == PeerState::stalled) learn(rank, PeerState::alive, "");
  std::visit([&](auto& kind) { on(rank, std::move(kind), now); }, message);
}

void Coordinator::lose(int rank, const std::string& why, TimePoint) {
  if (!is_rank(rank)) return;
  seat(rank).present = false;
  // It asks again when it is back.
  std::erase_if(flushes_, [rank](const auto& waiting) { return waiting.first == rank; });
  if (seat(rank).moved) return;
  learn(rank, PeerState::lost, why);
}

void Coordinator::tick(TimePoint now) {
  const bool all_should_be_here = anybody_came_ && now - first_join_ >= options_.absent_after;
  for (int rank = 0; rank < static_cast<int>(seats_.size()); ++rank) {
    Seat& own = seat(rank);
    if (own.present && own.state == PeerState::alive &&
        now - own.last_sign >= options_.stalled_after) {
      const std::chrono::duration<double> silent = now - own.last_sign;
      learn(rank, PeerState::stalled, fmt::format("no sign of life for {:.1f} s", silent.count()));
    }
    if (!own.came && anybody_came_ && now - first_join_ >= options_.stalled_after)
      learn(rank, PeerState::stalled, "it has not connected to the control plane yet");
    if (!own.came && all_should_be_here)
      learn(rank, PeerState::lost, "it has not connected to the control plane");
    if (own.present) send_(rank, Beat{});
  }
}

void Coordinator::note_marks(Seat& seat, const std::vector<GroupMark>& marks) {
  for (const GroupMark& mark : marks) seat.marks[mark.uid] = mark;
  if (seat.marks.size() <= kept_marks) return;
  const auto first = std::next(seat.marks.begin(), kept_first_marks);
  seat.marks.erase(first,
                   std::next(first, static_cast<std::ptrdiff_t>(seat.marks.size() - kept_marks)));
}

PeerNews Coordinator::news_of(int rank) const {
  const Seat& own = seats_[static_cast<std::size_t>(rank)];
  PeerNews news{.rank = rank,
                .state = own.state,
                .detail = own.detail,
                .culprits = own.culprits,
                .broke_off = own.broke_off};
  for (const auto& [uid, mark] : own.marks) news.marks.push_back(mark);
  return news;
}

void Coordinator::learn(int rank, PeerState state, const std::string& detail) {
  Seat& own = seat(rank);
  if (state == PeerState::lost && options_.is_seen_alive && options_.is_seen_alive(rank))
    state = PeerState::stalled;
  const bool comes_back = own.state == PeerState::stalled && state == PeerState::alive;
  if (state <= own.state && !comes_back) return;
  // Who has said goodbye may end as it likes.
  if (own.state == PeerState::left) return;
  own.state = state;
  own.detail = detail;
  send_to_others(rank, News{news_of(rank)});
  if (is_gone(state)) settle_shrinking();
  answer_flushes();
}

void Coordinator::send_to_others(int rank, const Message& message) {
  for (int other = 0; other < static_cast<int>(seats_.size()); ++other)
    if (other != rank && seat(other).present) send_(other, message);
}

void Coordinator::on(int rank, Beat message, TimePoint) { note_marks(seat(rank), message.marks); }

void Coordinator::on(int rank, Goodbye message, TimePoint) {
  if (std::exchange(seat(rank).said_goodbye, true)) return;  // at another connection, too
  note_marks(seat(rank), message.marks);
  seat(rank).culprits = message.culprits;
  seat(rank).broke_off = message.broke_off;
  const bool was_seen = seat(rank).state == PeerState::left;
  learn(rank, PeerState::left, words_of(message, rank));
  // Who has seen its end may know less of how far it had come.
  if (was_seen) send_to_others(rank, News{news_of(rank)});
}

// From those who see more: ranks of the same host, or all who come from a coordinator that was
// lost.
void Coordinator::on(int rank, News message, TimePoint) {
  const PeerNews& news = message.news;
  if (!is_rank(news.rank)) return;
  Seat& about = seat(news.rank);
  if (is_gone(news.state)) note_marks(about, news.marks);
  // Whoever speaks with this coordinator is not lost, whatever others have heard at another.
  if (about.present && (news.state == PeerState::lost || news.state == PeerState::stalled))
    return send_(rank, News{news_of(news.rank)});
  if (about.culprits.empty()) about.culprits = news.culprits;
  about.broke_off = about.broke_off || news.broke_off;
  learn(news.rank, news.state, news.detail);
}

void Coordinator::on(int rank, AbortGroup message, TimePoint) {
  // The first reason stays.
  if (!aborted_.try_emplace(message.uid, message)) return;
  send_to_others(rank, message);
}

void Coordinator::on(int rank, DumpNow message, TimePoint) {
  for (Seat& seat : seats_)
    if (!seat.came) seat.early_dump = message;
  send_to_others(rank, message);
}

template <class AnyQuestion>
void Coordinator::pass_question(int rank, AnyQuestion message) {
  message.asker = rank;
  const std::vector<int> asked = std::exchange(message.asked, {});
  for (const int other : asked) {
    if (!is_rank(other) || other == rank) continue;
    if (seat(other).present && !is_gone(seat(other).state)) send_(other, message);
  }
}

template <class AnyAnswer>
void Coordinator::pass_answer(int rank, AnyAnswer message) {
  message.report.rank = rank;
  if (is_rank(message.asker) && seat(message.asker).present) send_(message.asker, message);
}

void Coordinator::on(int rank, Question message, TimePoint) {
  pass_question(rank, std::move(message));
}
void Coordinator::on(int rank, Answer message, TimePoint) { pass_answer(rank, std::move(message)); }
void Coordinator::on(int rank, CallQuestion message, TimePoint) {
  pass_question(rank, std::move(message));
}
void Coordinator::on(int rank, CallAnswer message, TimePoint) {
  pass_answer(rank, std::move(message));
}

void Coordinator::on(int rank, EnteredCall message, TimePoint) {
  const std::pair call(message.uid, message.sequence);
  const auto [first, is_new] = notes_.try_emplace(call, Noted{rank, message});
  if (is_new) {
    noted_.push_back(call);
    if (noted_.size() <= kept_notes) return;
    notes_.erase(noted_.front());
    noted_.pop_front();
  } else if (first->second.note.signature != message.signature) {
    const std::string reason = fmt::format(
        "ranks make different calls: #{} is {} on rank {}, but {} on rank {}", message.sequence,
        first->second.note.words, first->second.rank, message.words, rank);
    on(-1, AbortGroup{.uid = message.uid, .reason = reason}, {});
  }
}

void Coordinator::on(int rank, ShrinkCall message, TimePoint) {
  if (message.members.empty()) return withdraw(rank, message);
  if (const ShrinkVerdict* const known = verdicts_.find(message.uid)) {
    if (holds(*known)) {
      send_(rank, *known);
      return;
    }
    verdicts_.erase(message.uid);
  }
  std::erase_if(message.members, [this](int member) { return !is_rank(member); });
  Shrinking& shrinking = shrinking_[message.uid];
  shrinking.members = message.members;
  shrinking.callers.insert(rank);
  settle_shrinking();
}

// The number of a new group that not all have been able to make is not used again: what some of
// them have said under it is still on its way.
void Coordinator::withdraw(int rank, const ShrinkCall& message) {
  if (const auto waiting = shrinking_.find(message.uid); waiting != shrinking_.end()) {
    waiting->second.callers.erase(rank);
    if (waiting->second.callers.empty()) shrinking_.erase(waiting);
  }
  if (message.void_uid != 0) return make_void(message.uid, message.void_uid);
  const ShrinkVerdict* const known = verdicts_.find(message.uid);
  if (known != nullptr && std::ranges::find(known->survivors, rank) != known->survivors.end())
    make_void(message.uid, known->new_uid);
}

// Even before it is known here: those who have not yet rejected it may be the later to come.
void Coordinator::make_void(std::uint64_t uid, std::uint64_t new_uid) {
  void_.try_emplace(new_uid, {});
  if (const ShrinkVerdict* const known = verdicts_.find(uid); known && known->new_uid == new_uid)
    verdicts_.erase(uid);
}

// From a coordinator that was lost when not all had heard it.
void Coordinator::on(int, ShrinkVerdict message, TimePoint) {
  if (!holds(message) || void_.contains(message.new_uid)) return;
  if (const auto waiting = shrinking_.find(message.uid); waiting != shrinking_.end()) {
    for (const int caller : waiting->second.callers) send_(caller, message);
    shrinking_.erase(waiting);
  }
  verdicts_.insert_or_assign(message.uid, message);
}

void Coordinator::on(int rank, Moved, TimePoint) { deserted_ = seat(rank).moved = true; }

void Coordinator::on(int rank, Flush message, TimePoint) {
  flushes_.emplace_back(rank, message);
  answer_flushes();
}

void Coordinator::answer_flushes() {
  if (flushes_.empty()) return;
  const bool all_hear = std::ranges::all_of(
      seats_, [](const Seat& seat) { return seat.present || is_gone(seat.state); });
  if (!all_hear) return;
  for (const auto& [rank, flush] : std::exchange(flushes_, {})) send_(rank, flush);
}

bool Coordinator::holds(const ShrinkVerdict& verdict) const {
  return std::none_of(verdict.survivors.begin(), verdict.survivors.end(), [this](int survivor) {
    return !is_rank(survivor) || is_gone(state_of(survivor));
  });
}

bool Coordinator::is_settled(const Shrinking& shrinking) const {
  return std::all_of(shrinking.members.begin(), shrinking.members.end(), [&](int member) {
    return shrinking.callers.contains(member) || is_gone(state_of(member));
  });
}

// A verdict is kept: who asks again, or late, gets the same.
void Coordinator::settle_shrinking() {
  for (auto entry = shrinking_.begin(); entry != shrinking_.end();) {
    const auto& [uid, shrinking] = *entry;
    if (!is_settled(shrinking)) {
      // Who has called, and is gone, waits no more; who comes back calls again.
      const bool is_forsaken = std::ranges::all_of(
          shrinking.callers, [this](int caller) { return is_gone(state_of(caller)); });
      entry = is_forsaken ? shrinking_.erase(entry) : std::next(entry);
      continue;
    }
    const auto coordinator = static_cast<std::uint64_t>(options_.index);
    ShrinkVerdict verdict{
        .uid = uid,
        .new_uid = first_shrunk_uid + coordinator * shrunk_uids_of_coordinator + settled_++};
    for (const int caller : shrinking.callers)
      if (!is_gone(state_of(caller))) verdict.survivors.push_back(caller);
    for (const int survivor : verdict.survivors) send_(survivor, verdict);
    verdicts_.insert_or_assign(uid, std::move(verdict));
    entry = shrinking_.erase(entry);
  }
}

}  // namespace hymn::control
