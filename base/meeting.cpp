#include "base/meeting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/waiter.hpp"

namespace hymn {
namespace {

// Members other than the first wait a little longer than it does, so that the first can still tell
// them who is missing.
constexpr Duration verdict_grace = std::chrono::milliseconds(500);
// Whoever is still not there after this is likely never to come.
constexpr Duration longest_farewell = std::chrono::milliseconds(250);

std::optional<ExchangeMessage> receive_until(Exchange& exchange, int from, std::uint64_t tag,
                                             const Patience& patience, Deadline deadline) {
  Waiter waiter(patience.crowded);
  // On a busy machine it takes seconds until the waiter is sleepy.
  constexpr unsigned turns_between_looks = 256;
  for (unsigned turn = 1;; ++turn) {
    if (auto message = exchange.try_receive(from, tag)) return message;
    if (deadline.expired(patience.clock->now())) return std::nullopt;
    const bool looks = waiter.is_sleepy() || turn % turns_between_looks == 0;
    if (looks && patience.is_hopeless && patience.is_hopeless(from))
      return exchange.try_receive(from, tag);  // it may have been its last word
    if (patience.meanwhile) patience.meanwhile();
    waiter.pause();
  }
}

/// What was said may need this rank's calls to get there. Who waits for it takes it at once.
void see_off(Exchange& exchange, std::span<const int> members, std::uint64_t tag, bool crowded) {
  const Deadline deadline = Deadline::after(longest_farewell);
  Waiter waiter(crowded);
  const auto has_left = [&](int member) { return exchange.has_left(member, tag); };
  while (!std::all_of(members.begin(), members.end(), has_left)) {
    if (deadline.expired(std::chrono::steady_clock::now())) return;
    waiter.pause();
  }
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

std::vector<Bytes> collect(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
                           std::span<const std::byte> mine, const Patience& patience) {
  const TimePoint started = patience.clock->now();
  std::vector<Bytes> gathered(members.size());
  gathered[0].assign(mine.begin(), mine.end());
  std::vector<int> missing;
  for (std::size_t i = 1; i < members.size(); ++i) {
    auto message = receive_until(exchange, members[i], tag, patience, patience.deadline);
    if (message)
      gathered[i] = std::move(message->bytes);
    else
      missing.push_back(members[i]);
  }
  Packer verdict;
  verdict.number(missing.size());
  for (const int rank : missing) verdict.number(static_cast<std::uint64_t>(rank));
  verdict.number(members.size());
  if (missing.empty())
    for (const Bytes& bytes : gathered) verdict.bytes(bytes);
  for (const int member : members.subspan(1)) exchange.send(member, tag, verdict.packed());
  see_off(exchange, members.subspan(1), tag, patience.crowded);
  if (!missing.empty()) throw_missing(patience, missing, started);
  return gathered;
}

}  // namespace

ExchangeMessage receive(Exchange& exchange, int from, std::uint64_t tag, const Patience& patience) {
  const TimePoint started = patience.clock->now();
  auto message = receive_until(exchange, from, tag, patience, patience.deadline);
  if (!message) throw_missing(patience, {from}, started);
  return std::move(*message);
}

std::vector<Bytes> all_gather(Exchange& exchange, std::span<const int> members, std::uint64_t tag,
                              std::span<const std::byte> mine, const Patience& patience) {
  if (exchange.rank() == members.front()) return collect(exchange, members, tag, mine, patience);
  const TimePoint started = patience.clock->now();
  exchange.send(members.front(), tag, mine);
  const Deadline deadline = patience.deadline.is_never()
                                ? Deadline::never()
                                : Deadline(patience.deadline.when() + verdict_grace);
  auto message = receive_until(exchange, members.front(), tag, patience, deadline);
  if (!message) throw_missing(patience, {members.front()}, started);
  Unpacker verdict(message->bytes);
  std::vector<int> missing(verdict.count());
  for (int& rank : missing) rank = static_cast<int>(verdict.number());
  if (!missing.empty()) throw_missing(patience, missing, started);
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
