// Tuning tables that anybody may have written.
#include <cmath>

#include "collectives/planner/tuning_table.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

/// Whatever was measured, the costs looked up from it are times.
void check(const hymn::TuningTable& table) noexcept {
  using hymn::fuzz::require;
  require(hymn::TuningTable::parse(table.to_json(), "again") == table,
          "a table comes back from JSON as it was");
  for (const hymn::TuningRow& row : table.rows) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 13, SIZE_MAX}) {
      const auto seconds = table.seconds(row.path, row.algorithm, row.type, row.dtype, row.ranks,
                                         row.hosts, bytes, row.memory);
      require(seconds && std::isfinite(*seconds) && *seconds > 0,
              "what was measured has a time for every size");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hymn;
  fuzz::take([&] { check(TuningTable::parse(fuzz::text(data, size), "input")); });
  return 0;
}
