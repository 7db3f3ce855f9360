// Every way in which a group can carry out a collective, and how to force one.
#pragma once

#include <string>
#include <vector>

#include "hymn/hymn.hpp"

namespace hymn::test {

/// A path and one of its algorithms, as `explain` names them.
struct Road {
  std::string path;
  std::string algorithm;

  friend bool operator==(const Road&, const Road&) = default;
};

/// "shm: all_reduce_two_shot"
std::string to_string(const Road& road);

/// A list of all paths there are, but for one, whatever HYMN_PATH says.
std::string every_path(std::string_view without = {});

/// What a group that may take any path has for this collective; the same on all members.
std::vector<Road> roads_of(const ProcessGroup& free, OpType type);

/// The options of a group that must take this road.
GroupOptions forced(const Road& road);

/// The collectives, without sends and receives.
std::vector<OpType> collectives();

}  // namespace hymn::test
