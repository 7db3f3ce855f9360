// Machines from JSON that anybody may have written.
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hymn;
  fuzz::take([&] { fuzz::check(machine_from_json(fuzz::text(data, size), "input")); });
  return 0;
}
