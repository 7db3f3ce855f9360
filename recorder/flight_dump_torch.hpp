// A dump as PyTorch's analyser of its flight recorder (torchfrtrace) wants it.
#pragma once

#include "recorder/flight_dump_entry.hpp"

namespace hymn {

/// `dump` is what dump_json() gives. Without what that analyser does not know: calls that c10d has
/// not, such as scans, and groups whose members are not known. Its format is that of torch 2.15
/// (torch/csrc/distributed/c10d/FlightRecorder.hpp, version 2.10).
DumpJson torch_dump(const DumpJson& dump);

}  // namespace hymn
