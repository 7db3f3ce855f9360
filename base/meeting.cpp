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
// Whoever is still not there after this is likely never to come.
constexpr Duration longest_farewell = std::chrono::milliseconds(250);

std::optional<ExchangeMessage> receive_until(Exchange& exchange, int from, std::uint64_t tag,
                                             const Patience& patience) {
  std::optional<ExchangeMessage> message;
  const std::array needed{from};
  PatientWait wait(patience, needed);
  wait.until([&] { return (message = exchange.try_receive(from, tag)).has_value(); });
  return message;
}

/// What was said may need this rank's calls to get there. Who waits for it takes it at once.
void see_off(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
             Patience patience) {
  patience.clock = &steady_clock();
  patience.deadline = Deadline::after(longest_farewell);
  const auto has_left = [&](int member) { return exchange.has_left(member, tag); };
  PatientWait wait(patience);
  wait.until([&] { return std::all_of(members.begin(), members.end(), has_left); });
}

// Takes the ranks by reference: g++ 12 forgets what a function that only throws does to what it was
// given, and would free a vector that has been moved away once more.
[[noreturn]] void throw_missing(const Patience& patience, const std::vector<int>& missing,
                                TimePoint started) {
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

/// What the first member tells the others: their words, or why there are none.
struct Verdict {
  std::vector<int> missing{};  ///< have not come in time, or are gone
  std::string gone{};          ///< what is known of those that are gone; empty: none are

  void pack(Packer& packer) const {
    packer.text(gone).number(missing.size());
    for (const int rank : missing) packer.number(static_cast<std::uint64_t>(rank));
  }
  static Verdict unpack(Unpacker& unpacker) {
    Verdict verdict;
    verdict.gone = unpacker.text();
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
  for (const int member : others) exchange.send(member, tag, packer.packed());
  patience.meanwhile = nullptr;  // it would throw again
  see_off(exchange, others, tag, std::move(patience));
}

/// What each has said, this rank first; and who has not come.
std::vector<Bytes> hear_all(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
                            std::span<const std::byte> mine, const Patience& patience,
                            Verdict& verdict) {
  std::vector<Bytes> gathered(members.size());
  gathered[0].assign(mine.begin(), mine.end());
  for (std::size_t i = 1; i < members.size(); ++i) {
    auto message = receive_until(exchange, members[i], tag, patience);
    if (message)
      gathered[i] = std::move(message->bytes);
    else
      verdict.missing.push_back(members[i]);
  }
  return gathered;
}

std::vector<Bytes> collect(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
                           std::span<const std::byte> mine, const Patience& patience) {
  const TimePoint started = patience.clock->now();
  const std::span<const int> others = members.subspan(1);
  Verdict verdict;
  std::vector<Bytes> gathered;
  try {
    gathered = hear_all(exchange, members, tag, mine, patience, verdict);
  } catch (const PeerError& error) {
    tell_of_gone(exchange, others, tag, error, patience);
    throw;
  }
  Packer packer;
  verdict.pack(packer);
  packer.number(members.size());
  if (verdict.missing.empty())
    for (const Bytes& bytes : gathered) packer.bytes(bytes);
  for (const int member : others) exchange.send(member, tag, packer.packed());
  see_off(exchange, others, tag, patience);
  verdict.raise(patience, started);
  return gathered;
}

}  // namespace

ExchangeMessage receive(Exchange& exchange, int from, std::uint64_t tag, const Patience& patience) {
  const TimePoint started = patience.clock->now();
  auto message = receive_until(exchange, from, tag, patience);
  if (!message) throw_missing(patience, {from}, started);
  return std::move(*message);
}

std::vector<Bytes> all_gather(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
                              std::span<const std::byte> mine, const Patience& patience) {
  if (exchange.rank() == members.front()) return collect(exchange, members, tag, mine, patience);
  const TimePoint started = patience.clock->now();
  exchange.send(members.front(), tag, mine);
  Patience longer = patience;
  if (!longer.deadline.is_never())
    longer.deadline = Deadline(longer.deadline.when() + verdict_grace);
  auto message = receive_until(exchange, members.front(), tag, longer);
  if (!message) throw_missing(patience, {members.front()}, started);
  Unpacker verdict(message->bytes);
  Verdict::unpack(verdict).raise(patience, started);
  if (const std::uint64_t count = verdict.number(); count != members.size()) {
    ErrorContext context = patience.context;
    context.remedy = "make the same calls, with the same ranks, on all ranks";
    throw UsageError(fmt::format("{}: rank {} gathers {} ranks where this rank gathers {}",
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
  const Bytes value = bytes();
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

Bytes Unpacker::bytes() {
  const auto taken = take(static_cast<std::size_t>(number()));
  return {taken.begin(), taken.end()};
}

}  // namespace hymn
