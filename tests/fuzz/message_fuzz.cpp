// Messages of the control plane, as anybody with the job's token could send them.
#include <algorithm>
#include <span>

#include "control/message.hpp"
#include "recorder/call_snapshot.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hymn;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const control::Message message = control::unpack(bytes);
    const Bytes again = control::pack(message);
    fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                  "a message goes back to the bytes it came from");
    if (const auto* answer = std::get_if<control::CallAnswer>(&message))
      fuzz::require(report_of(snapshot_of(answer->report)).calls == answer->report.calls,
                    "calls go back to the words they came from");
  } catch (const NetworkError& error) {
    fuzz::require(!error.problem().empty(), "an error has a text");
  }
  return 0;
}
