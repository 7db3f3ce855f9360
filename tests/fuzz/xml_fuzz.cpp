// Machines from hwloc's XML. See observed_apart.cpp for how the fuzzer sees into the child process
// that reads it.
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hymn;
  fuzz::take([&] { fuzz::check(read_xml(fuzz::text(data, size), "input")); });
  return 0;
}
