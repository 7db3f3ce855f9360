// Messages of the control plane, as anybody with the job's token could send them.
#include <algorithm>
#include <span>

#include "control/message.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hymn;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const Bytes again = control::pack(control::unpack(bytes));
    fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                  "a message goes back to the bytes it came from");
  } catch (const NetworkError& error) {
    fuzz::require(!error.problem().empty(), "an error has a text");
  }
  return 0;
}
