#include "recorder/last_call.hpp"

#include <fmt/format.h>

#include "recorder/recorder_clock.hpp"

namespace hymn {
namespace {

double seconds_since(const RecorderHeader& header, std::uint64_t stamp) {
  const ClockReading now = ClockReading::now();
  const ClockReading made{header.made_stamp, header.made_steady_ns, header.made_wall_ns};
  return static_cast<double>(StampClock(made, now).duration_ns(stamp, now.stamp)) / 1e9;
}

}  // namespace

std::string describe_last_call(const RecorderView& view,
                               const std::function<std::string(std::uint64_t uid)>& label) {
  if (view.capacity() == 0) return "what it does is not recorded";
  const std::uint64_t next = view.ring().next_id();
  if (next == 0) return "it has made no call yet";
  const auto last = view.ring().read(next - 1);
  if (!last) return "it is just making a call";
  const std::string call = fmt::format("{} #{} of group '{}'", to_string(last->type),
                                       last->sequence, label(last->group_uid));
  switch (last->state) {
    case CallState::scheduled:
    case CallState::started:
      return fmt::format("it is in {} since {:.1f} s", call,
                         seconds_since(view.header(), last->created));
    case CallState::completed:
      return fmt::format("its last call, {}, completed {:.1f} s ago", call,
                         seconds_since(view.header(), last->completed));
    case CallState::failed:
      break;
  }
  return fmt::format("its last call, {}, has failed", call);
}

}  // namespace hymn
