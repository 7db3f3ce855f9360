#include "recorder/last_call.hpp"

#include <fmt/format.h>

#include "base/tag_text.hpp"
#include "control/coordinator.hpp"
#include "recorder/call_facts.hpp"
#include "recorder/recorder_clock.hpp"

namespace hymn {
namespace {

// All who wait in a circle come to their limits at about the same time.
constexpr double just_now = 2;  // seconds
// By then a call that nothing moves on is marked as that.
constexpr double known_to_be_driven = 1.5;  // seconds

double seconds_since(const RecorderHeader& header, std::uint64_t stamp) {
  const ClockReading now = ClockReading::now();
  const ClockReading made{header.made_stamp, header.made_steady_ns, header.made_wall_ns};
  return static_cast<double>(StampClock(made, now).duration_ns(stamp, now.stamp)) / 1e9;
}

std::uint64_t wait_began(const CallRecord& call) {
  return call.waited_since != 0 ? call.waited_since : call.created;
}

// "of 8 int32 to rank 3 with tag 5"
std::string message_words(const CallRecord& call) {
  const bool sends = call.type == OpType::send;
  const CallSide& side = sends ? call.input : call.output;
  const std::string what = call.type == OpType::probe
                               ? "for a message"
                               : fmt::format("of {} {}", side.count, to_string(side.dtype));
  return fmt::format("{} {} {} with tag {}", what, sends ? "to" : "from",
                     call.peer == any_source ? "any rank" : fmt::format("rank {}", call.peer),
                     tag_of(call));
}

std::string title_of(const CallRecord& call, const CallWords& words) {
  std::string title = fmt::format("{} #{}", to_string(call.type), call.sequence);
  if (has_tag(call.type)) title += fmt::format(" {},", message_words(call));
  title +=
      fmt::format("{}group '{}'", has_tag(call.type) ? " " : " of ", words.label(call.group_uid));
  if (words.sites == nullptr || call.site == 0) return title;
  return fmt::format("{} at {}", title, site_text(call.site, *words.sites));
}

/// Nearly always the very last one.
std::optional<CallRecord> last_waited(const RecorderView& view) {
  std::vector<CallRecord> open = open_calls(view);
  std::erase_if(open, [](const CallRecord& call) { return !call.waited_for; });
  return open.empty() ? std::nullopt : std::optional(open.back());
}

std::optional<RecorderView::Making> recent_making(const RecorderView& view) {
  auto making = view.making();
  const bool is_old =
      making && making->given_up != 0 && seconds_since(view.header(), making->given_up) > just_now;
  return is_old ? std::nullopt : making;
}

std::string describe_calls(const RecorderView& view, const CallWords& words) {
  if (view.capacity() == 0) return "what it does is not recorded";
  const std::uint64_t next = view.ring().next_id();
  if (next == 0) return "it has made no call in this world yet";
  auto last = view.ring().read(next - 1);
  if (!last) return "it is making a call just now";
  if (auto waited = last_waited(view)) last = std::move(waited);
  const std::string call = title_of(*last, words);
  switch (last->state) {
    case CallState::scheduled:
    case CallState::started: {
      const auto since = [&](std::uint64_t stamp) { return seconds_since(view.header(), stamp); };
      return last->waited_for
                 ? fmt::format("it has been in {} for {:.1f} s", call, since(wait_began(*last)))
                 : fmt::format("it started {} {:.1f} s ago, and is not waiting in any call", call,
                               since(last->created));
    }
    case CallState::completed:
      return fmt::format("its last call, {}, completed {:.1f} s ago", call,
                         seconds_since(view.header(), last->completed));
    case CallState::failed:
      break;
  }
  return fmt::format("its last call, {}, has failed", call);
}

}  // namespace

std::string describe_call(const CallRecord& call) {
  if (!has_tag(call.type)) return describe(facts_of(call));
  return fmt::format("{} {}", to_string(call.type), message_words(call));
}

std::optional<CallRecord> find_call(const RecorderView& view, std::uint64_t uid,
                                    std::uint64_t sequence, bool p2p) {
  if (view.capacity() == 0) return std::nullopt;
  const CallRing& ring = view.ring();
  const std::uint64_t first = ring.first_id();
  for (std::uint64_t id = ring.next_id(); id > first; --id) {
    const auto call = ring.read(id - 1);
    if (call && call->group_uid == uid && call->sequence == sequence &&
        is_collective(call->type) == !p2p)
      return call;
  }
  return std::nullopt;
}

std::vector<CallRecord> open_calls(const RecorderView& view) {
  constexpr std::uint64_t most_looked_at = 1000;
  std::vector<CallRecord> open;
  if (view.capacity() == 0) return open;
  const CallRing& ring = view.ring();
  const std::uint64_t next = ring.next_id();
  std::uint64_t id = ring.first_id();
  if (next - id > most_looked_at) id = next - most_looked_at;
  for (; id < next; ++id) {
    const auto call = ring.read(id);
    if (call && !is_ended(call->state)) open.push_back(*call);
  }
  return open;
}

std::optional<CallRecord> unended_call(const RecorderView& view) {
  if (view.capacity() == 0 || view.ring().next_id() == 0) return std::nullopt;
  if (auto waited = last_waited(view)) return waited;
  const auto last = view.ring().read(view.ring().next_id() - 1);
  if (!last || last->state != CallState::failed) return std::nullopt;
  const bool is_old = seconds_since(view.header(), last->completed) > just_now;
  return is_old ? std::nullopt : last;
}

std::optional<CallRecord> tested_call(const RecorderView& view) {
  std::vector<CallRecord> open = open_calls(view);
  std::erase_if(open, [&view](const CallRecord& call) {
    return call.waited_for || call.undriven || call.on_gpu ||
           seconds_since(view.header(), call.created) < known_to_be_driven;
  });
  return open.empty() ? std::nullopt : std::optional(open.back());
}

bool has_gone_on_after(const RecorderView& view, std::uint64_t calls) {
  if (view.ring().next_id() <= calls) return false;
  const auto last = view.ring().read(view.ring().next_id() - 1);
  return last && last->state == CallState::completed;
}

OwnWait awaited_in(const RecorderView& view, const CallRecord& call) {
  OwnWait awaited{.uid = call.group_uid};
  const auto milliseconds_since = [&](std::uint64_t stamp) {
    return static_cast<std::uint64_t>(1e3 * seconds_since(view.header(), stamp));
  };
  awaited.milliseconds = milliseconds_since(wait_began(call));
  // Whoever tested it, until that failed, has waited for nobody.
  awaited.tests = call.state == CallState::failed && !call.waited_for;
  if (call.state == CallState::failed)
    awaited.ended = std::max<std::uint64_t>(milliseconds_since(call.completed), 1);
  if (has_tag(call.type)) {
    awaited.any = call.peer == any_source;
    awaited.ranks = awaited.any ? view.members_of(call.group_uid) : std::to_string(call.peer);
  } else if (is_collective(call.type)) {
    awaited.sequence = call.sequence;
    awaited.ranks = view.members_of(call.group_uid);
  }
  return awaited;
}

FrameSource source_of(const RecorderView& view, int pid) {
  const RecorderHeader& header = view.header();
  return {header.executable.load(), header.executable_base, pid, &header.sites};
}

std::optional<RecorderView::Making> unended_making(const RecorderView& view) {
  auto making = recent_making(view);
  return making && making->kind == MakingKind::new_group ? making : std::nullopt;
}

bool is_making(const RecorderView& view, std::uint64_t uid) {
  if (const auto making = unended_making(view); making && making->uid == uid) return true;
  const auto given_up = view.gave_up_making(uid);
  return given_up && seconds_since(view.header(), *given_up) <= just_now;
}

OwnWait awaited_in(const RecorderView& view, const RecorderView::Making& making) {
  return {
      .uid = making.uid,
      .ranks = making.ranks,
      .milliseconds = static_cast<std::uint64_t>(1e3 * seconds_since(view.header(), making.since)),
      .makes = true};
}

std::string describe_last_call(const RecorderView& view, const CallWords& words) {
  const auto making = recent_making(view);
  // Of who ends its world that is known without this.
  if (!making || making->kind == MakingKind::end) return describe_calls(view, words);
  if (making->kind == MakingKind::shrink)
    return fmt::format(
        "it {} group '{}'{}; {}",
        making->given_up != 0 ? "has given up shrinking" : "has been shrinking",
        words.label(making->uid),
        making->given_up != 0
            ? ""
            : fmt::format(" for {:.1f} s", seconds_since(view.header(), making->since)),
        describe_calls(view, words));
  const bool has_number = !control::is_undrawn(making->uid, view.header().world_size);
  const std::string group =
      fmt::format("{}{}{}{}", has_number ? fmt::format("group {}", making->uid) : "a group",
                  making->ranks.empty() ? "" : " of ranks ", making->ranks, with_tag(making->tag));
  const std::string makes = making->given_up != 0
                                ? fmt::format("it has given up making {}", group)
                                : fmt::format("it has been making {} for {:.1f} s", group,
                                              seconds_since(view.header(), making->since));
  const bool has_called = view.capacity() != 0 && view.ring().next_id() != 0;
  return has_called ? fmt::format("{}; {}", makes, describe_calls(view, words)) : makes;
}

}  // namespace hymn
