// How long the communication of a captured program should take.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hymn/program.hpp"
#include "tools/explain/plan.hpp"
#include "topology/imagined_places.hpp"

namespace hymn {

/// Calls that are alike.
struct ForecastCall {
  std::string name;  ///< of the function
  std::size_t bytes = 0;
  int ranks = 0;
  int hosts = 0;
  std::string path{};  ///< empty: nothing can carry it, or nothing has to
  std::string algorithm{};
  double us = 0;  ///< of one of them
  int times = 0;
};

struct Forecast {
  std::vector<ForecastCall> calls;  ///< in the order in which they come first
  double one_by_one_us = 0;         ///< the sum of all
  /// From the first call to the last result, when nothing but the communication takes time: calls
  /// of one group follow one another, those of different ones are under way together.
  double end_us = 0;
};

/// `rest`: all of a plan's task that is the same for every call: of its query only where buffers
/// are counts. Throws BadArguments where the program has ranks that the job has not.
Forecast forecast(const Program& program, ImaginedPlaces& places, const PlanTask& rest);

}  // namespace hymn
