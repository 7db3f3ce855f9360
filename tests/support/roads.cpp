#include "tests/support/roads.hpp"

#include "base/paths.hpp"
#include "tests/support/known_call.hpp"

namespace hymn::test {

std::string to_string(const Road& road) { return road.path + ": " + road.algorithm; }

std::string every_path(std::string_view without) {
  std::string list;
  for (const std::string_view path : paths::all)
    if (path != without) list += (list.empty() ? "" : ",") + std::string(path);
  return list;
}

std::vector<Road> roads_of(const ProcessGroup& free, OpType type) {
  // `explain` lists every candidate that serves the collective, whether it can run this or not.
  const KnownCall call(free, {.type = type, .count = 1});
  std::vector<Road> roads;
  for (const Candidate& candidate : free.explain(call.request()).candidates)
    roads.push_back({candidate.path, candidate.algorithm});
  return roads;
}

GroupOptions forced(const Road& road) {
  return {.description = to_string(road), .path = road.path, .algo = road.algorithm};
}

std::vector<OpType> collectives() {
  std::vector<OpType> types;
  for (const OpType type : all_op_types)
    if (is_collective(type)) types.push_back(type);
  return types;
}

}  // namespace hymn::test
