// What a rank has done last, in words, as its recorder's memory tells it.
#pragma once

#include <functional>
#include <string>

#include "recorder/recorder_view.hpp"

namespace hymn {

/// "it is in send #7 of group 'dp#1' since 3.0 s", "its last call, barrier #3 of group 'dp#1',
/// completed 12.0 s ago". `label` names a group by its uid. Of memory that a rank on this host
/// writes, or has written.
std::string describe_last_call(const RecorderView& view,
                               const std::function<std::string(std::uint64_t uid)>& label);

}  // namespace hymn
