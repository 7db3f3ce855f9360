// What the fuzz targets have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "hymn/error.hpp"
#include "topology/read_machine.hpp"

namespace hymn::fuzz {

/// A fault of hymn's: ends the run, and libFuzzer keeps the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "hymn fuzzing: this does not hold: %s\n", what);
  std::abort();
}

/// How many there were of something that an input has many of; told at the end.
struct Tally {
  const char* what;
  std::uint64_t count = 0;
  ~Tally() {
    std::fprintf(stderr, "hymn fuzzing: %llu %s\n", static_cast<unsigned long long>(count), what);
  }
};

/// Refusing the input in the documented way is as good as taking it.
template <typename Read>
void take(Read read) {
  try {
    read();
  } catch (const ConfigError& error) {
    require(!error.problem().empty(), "an error has a text");
  } catch (const UsageError& error) {
    require(!error.problem().empty(), "an error has a text");
  }
}

/// What holds for each machine that a reader lets through.
inline void check(const Machine& machine) noexcept {
  check_machine(machine);
  require(fingerprint(machine).size() == 16, "a fingerprint has 16 digits");
  require(machine_from_json(to_json(machine), "again") == machine,
          "a machine comes back from JSON as it was");
}

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace hymn::fuzz
