#include "base/meeting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace hymn {
namespace {

// Members other than the first wait a little longer than it does, so that the first can still tell
// them who is missing.
constexpr Duration verdict_grace = std::chrono::milliseconds(500);
// By then the first has told of a long wait those who wait with it.
constexpr Duration report_grace = std::chrono::seconds(1);
// Whoever is still not there after this is likely never to come.
constexpr Duration longest_farewell = std::chrono::milliseconds(250);

/// How to rest while something is waited for that it carries: until it comes. To look after other
/// things meanwhile takes a core; hundreds of ranks that share some would leave it to nobody.
auto news_of(Exchange& exchange) {
  constexpr Duration longest_rest = std::chrono::milliseconds(10);
  constexpr Duration of_each_rank = std::chrono::microseconds(200);
  const Duration longest = std::max<Duration>(longest_rest, exchange.size() * of_each_rank);
  return [&exchange, longest](Duration limit) {
    return exchange.await_news(std::min(limit, longest));
  };
}

std::optional<ExchangeMessage> receive_until(Exchange& exchange, int from, std::uint64_t tag,
                                             const Patience& patience,
                                             PatientWait::TellLong tell_long = {}) {
  std::optional<ExchangeMessage> message;
  const std::array needed{from};
  PatientWait wait(patience, needed, std::move(tell_long));
  wait.until([&] { return (message = exchange.try_receive(from, tag)).has_value(); },
             news_of(exchange));
  return message;
}

/// Words to some, which may need this rank's calls to get there.
class Telling {
 public:
  Telling(Exchange& exchange, const Patience& patience)
      : exchange_(exchange), is_hopeless_(patience.is_hopeless) {}

  void tell(int member, std::uint64_t tag, std::span<const std::byte> words) {
    letters_.push_back({member, exchange_.send_numbered(member, tag, words)});
  }
  /// Those that may not get it without further calls, and are still there.
  std::vector<int> untold() const {
    std::vector<int> members;
    for (const Letter& letter : letters_)
      if (!is_over(letter)) members.push_back(letter.member);
    return members;
  }
  bool wait(PatientWait wait) {
    return wait.until([this] { return have_all_left(); }, news_of(exchange_));
  }

 private:
  struct Letter {
    int member;
    std::uint64_t number;
  };

  // Of hundreds not all are asked for each time.
  bool have_all_left() {
    while (!letters_.empty() && is_over(letters_.back())) letters_.pop_back();
    return letters_.empty();
  }
  bool is_over(const Letter& letter) const {
    return exchange_.has_left(letter.number) || (is_hopeless_ && is_hopeless_(letter.member));
  }

  Exchange& exchange_;
  const std::function<bool(int rank)>& is_hopeless_;
  std::vector<Letter> letters_;
};

/// To those that can be reached and take it at once.
void tell_some(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
               std::span<const std::byte> words, Patience patience) {
  patience.clock = &steady_clock();
  patience.long_wait = nullptr;
  patience.deadline = Deadline::after(longest_farewell);
  Telling telling(exchange, patience);
  for (const int member : members) {
    try {
      telling.tell(member, tag, words);
    } catch (const NetworkError&) {
      // It is out of reach; the others need not be.
    }
  }
  telling.wait(PatientWait(patience));
}

/// To all, as they have all come: who has not heard it would wait for this rank, which may never
/// call again, and this rank for that one, in vain.
void tell_all(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
              std::span<const std::byte> words, Patience patience) {
  const TimePoint started = patience.clock->now();
  // They may have come in the last moment.
  if (!patience.deadline.is_never())
    patience.deadline = Deadline(std::max(patience.deadline.when(), started + longest_farewell));
  Telling telling(exchange, patience);
  for (const int member : members) telling.tell(member, tag, words);
  const auto tell_long = [&](TimePoint now) {
    if (const auto untold = telling.untold(); !untold.empty())
      patience.long_wait->tell(untold, now, false);
  };
  if (telling.wait(PatientWait(patience, {}, tell_long))) return;
  if (const auto untold = telling.untold(); !untold.empty())
    throw_missing(patience, untold, started);
}

/// What the first member tells the others: their words, or why there are none.
struct Verdict {
  std::vector<int> missing{};  ///< have not come in time, or are gone
  std::string gone{};          ///< what is known of those that are gone; empty: none are
  bool is_last = true;         ///< else the first still waits for those that are missing

  void pack(Packer& packer) const {
    packer.text(gone).number(is_last ? 1 : 0).number(missing.size());
    for (const int rank : missing) packer.number(static_cast<std::uint64_t>(rank));
  }
  static Verdict unpack(Unpacker& unpacker) {
    Verdict verdict;
    verdict.gone = unpacker.text();
    verdict.is_last = unpacker.number() != 0;
    verdict.missing.resize(unpacker.count());
    for (int& rank : verdict.missing) rank = static_cast<int>(unpacker.number());
    return verdict;
  }
  void raise(const Patience& patience, TimePoint started) const {
    if (!gone.empty()) {
      ErrorContext context = patience.context;
      context.missing = missing;
      throw PeerError(gone, std::move(context));
    }
    if (!missing.empty()) throw_missing(patience, missing, started);
  }
};

/// Some are gone, as the patience has found out: all that come hear it, as they may not see it.
void tell_of_gone(Exchange& exchange, std::span<const int> others, std::uint64_t tag,
                  const PeerError& error, Patience patience) {
  Packer packer;
  Verdict{error.context().missing, error.problem()}.pack(packer);
  patience.meanwhile = nullptr;  // they would throw again
  patience.watch = nullptr;
  tell_some(exchange, others, tag, packer.packed(), std::move(patience));
}

/// The first member's ear for the others.
class Hearing {
 public:
  Hearing(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
          const Patience& patience)
      : exchange_(exchange),
        members_(members),
        tag_(tag),
        patience_(patience),
        heard_(members.size()) {}

  /// What each has said, this rank first; and who has not come.
  std::vector<Bytes> hear_all(std::span<const std::byte> mine, Verdict& verdict) {
    heard_[0] = Bytes(mine.begin(), mine.end());
    for (std::size_t i = 1; i < members_.size(); ++i) {
      const std::array needed{members_[i]};
      PatientWait wait(patience_, needed, [this](TimePoint now) { tell_long(now); });
      if (!wait.until([&] { return has_come(i); }, news_of(exchange_)))
        verdict.missing.push_back(members_[i]);
    }
    std::vector<Bytes> gathered;
    for (auto& word : heard_) gathered.push_back(std::move(word).value_or(Bytes()));
    return gathered;
  }

 private:
  bool is_told() const { return patience_.long_wait && patience_.long_wait->is_told(); }
  bool has_come(std::size_t i) {
    // Those who come now are told whom they wait for.
    if (is_told()) hear_of_all();
    return hears(i);
  }
  void hear_of_all() {
    for (std::size_t i = 1; i < members_.size(); ++i) hears(i);
  }
  bool hears(std::size_t i) {
    if (heard_[i]) return true;
    auto message = exchange_.try_receive(members_[i], tag_);
    if (!message) return false;
    heard_[i] = std::move(message->bytes);
    if (is_told()) tell_missing(i);
    return true;
  }
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (!heard_[i]) ranks.push_back(members_[i]);
    return ranks;
  }
  // Those who wait with this rank need not wonder about it.
  void tell_missing(std::size_t i) const {
    Packer packer;
    Verdict{.missing = missing(), .is_last = false}.pack(packer);
    exchange_.send(members_[i], tag_, packer.packed());
  }
  void tell_long(TimePoint now) {
    hear_of_all();
    if (missing().empty()) return;
    patience_.long_wait->tell(missing(), now, false);
    for (std::size_t i = 1; i < members_.size(); ++i)
      if (heard_[i]) tell_missing(i);
  }

  Exchange& exchange_;
  std::span<const int> members_;
  std::uint64_t tag_;
  const Patience& patience_;
  std::vector<std::optional<Bytes>> heard_;
};

std::vector<Bytes> collect(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
                           std::span<const std::byte> mine, const Patience& patience) {
  const TimePoint started = patience.clock->now();
  const std::span<const int> others = members.subspan(1);
  Verdict verdict;
  std::vector<Bytes> gathered;
  try {
    gathered = Hearing(exchange, members, tag, patience).hear_all(mine, verdict);
  } catch (const PeerError& error) {
    tell_of_gone(exchange, others, tag, error, patience);
    throw;
  }
  Packer packer;
  verdict.pack(packer);
  packer.number(members.size());
  if (!verdict.missing.empty()) {
    tell_some(exchange, others, tag, packer.packed(), patience);
    verdict.raise(patience, started);
  }
  for (const Bytes& bytes : gathered) packer.bytes(bytes);
  tell_all(exchange, others, tag, packer.packed(), patience);
  return gathered;
}

}  // namespace

void throw_missing(const Patience& patience, const std::vector<int>& missing, TimePoint started) {
  const Duration waited = patience.clock->now() - started;
  ErrorContext context = patience.context;
  const std::string names = fmt::format("{}", fmt::join(missing, ", "));
  context.missing = missing;
  if (context.remedy.empty())
    context.remedy = "check that those ranks are alive and make the same calls in the same order";
  throw TimeoutError(fmt::format("{}: waited {:.3f} s for rank(s) {}", patience.purpose,
                                 std::chrono::duration<double>(waited).count(), names),
                     waited, std::move(context));
}

namespace {

[[noreturn]] void throw_missed(const Patience& patience, const std::vector<int>& missing, int first,
                               TimePoint started) {
  ErrorContext context = patience.context;
  context.missing = missing;
  context.remedy = "come sooner, or give those that wait a longer limit";
  throw MissedMeeting(fmt::format("{}: rank {} has given it up before this rank came, after it had "
                                  "waited for rank(s) {}",
                                  patience.purpose, first, fmt::join(missing, ", ")),
                      patience.clock->now() - started, std::move(context));
}

}  // namespace

ExchangeMessage receive(Exchange& exchange, int from, std::uint64_t tag, const Patience& patience) {
  const TimePoint started = patience.clock->now();
  auto message = receive_until(exchange, from, tag, patience);
  if (!message) throw_missing(patience, {from}, started);
  return std::move(*message);
}

namespace {

/// What the first member says in the end. Nothing: it has not said it in time.
std::optional<ExchangeMessage> hear_first(Exchange& exchange, std::span<const int> members,
                                          std::uint64_t tag, const Patience& patience) {
  const std::array first{members.front()};
  const auto own = std::ranges::find(members, exchange.rank());
  const bool quietly = !LongWait::is_speaker(static_cast<std::size_t>(own - members.begin()));
  LongWait* const long_wait = patience.long_wait.get();
  const auto tell_long = [&](TimePoint now) {
    if (long_wait->is_due(now - report_grace)) long_wait->tell(first, now, quietly);
  };
  while (true) {
    auto message = receive_until(exchange, members.front(), tag, patience, tell_long);
    if (!message) return message;
    Unpacker unpacker(message->bytes);
    const Verdict verdict = Verdict::unpack(unpacker);
    if (verdict.is_last) return message;
    const bool is_told = long_wait == nullptr || long_wait->is_told();
    if (!is_told) long_wait->tell(verdict.missing, patience.clock->now(), true);
  }
}

}  // namespace

std::vector<Bytes> all_gather(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
                              std::span<const std::byte> mine, const Patience& patience) {
  if (patience.alone) return {members.size(), Bytes(mine.begin(), mine.end())};
  if (exchange.rank() == members.front()) return collect(exchange, members, tag, mine, patience);
  const TimePoint started = patience.clock->now();
  exchange.send(members.front(), tag, mine);
  Patience longer = patience;
  if (!longer.deadline.is_never())
    longer.deadline = Deadline(longer.deadline.when() + verdict_grace);
  const auto message = hear_first(exchange, members, tag, longer);
  if (!message) throw_missing(patience, {members.front()}, started);
  Unpacker verdict(message->bytes);
  const Verdict last = Verdict::unpack(verdict);
  if (last.gone.empty() && std::ranges::count(last.missing, exchange.rank()) > 0)
    throw_missed(patience, last.missing, members.front(), started);
  last.raise(patience, started);
  if (const std::uint64_t count = verdict.number(); count != members.size()) {
    ErrorContext context = patience.context;
    context.remedy = "make the same calls, with the same ranks, on all ranks";
    throw UsageError(
        fmt::format("{}: rank {} gathers from {} ranks where this rank gathers from {}",
                    patience.purpose, members.front(), count, members.size()),
        std::move(context));
  }
  std::vector<Bytes> gathered;
  for (std::size_t i = 0; i < members.size(); ++i) gathered.push_back(verdict.bytes());
  return gathered;
}

Packer& Packer::number(std::uint64_t value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  return *this;
}

Packer& Packer::text(std::string_view value) {
  return bytes(std::as_bytes(std::span(value.data(), value.size())));
}

Packer& Packer::bytes(std::span<const std::byte> value) {
  number(value.size());
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

void Unpacker::need(std::size_t count) const {
  if (count > rest_.size())
    throw NetworkError(
        fmt::format("a bootstrap message is {} bytes too short", count - rest_.size()),
        {.remedy = "check that all ranks run the same version of hymn"});
}

std::span<const std::byte> Unpacker::take(std::size_t count) {
  need(count);
  const auto taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

std::uint64_t Unpacker::number() {
  std::uint64_t value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::size_t Unpacker::count() {
  const auto count = static_cast<std::size_t>(number());
  need(count);
  return count;
}

std::string Unpacker::text() {
  const auto value = view();
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

Bytes Unpacker::bytes() {
  const auto taken = view();
  return {taken.begin(), taken.end()};
}

std::span<const std::byte> Unpacker::view() { return take(static_cast<std::size_t>(number())); }

}  // namespace hymn
