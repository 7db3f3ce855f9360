// What the picture shows, before it is drawn: rows, and bars in them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tools/trace/finding.hpp"
#include "tools/trace/job.hpp"

namespace hymn::trace {

/// One operation of a rank. Seconds since the first thing in the picture.
struct Bar {
  double begin = 0;
  double end = 0;        ///< as `begin`: when it ended is not known
  int lane = 0;          ///< of operations at the same time, one above the other
  bool is_open = false;  ///< not left when the dump was made
  bool is_failed = false;
  bool is_marked = false;  ///< what a finding is about
  std::string group;       ///< as messages name it
  std::vector<std::string>
      labels;  ///< what it is, the longest first; the last has the number alone
  std::string tip;
};

struct Row {
  int rank = -1;
  std::string label;
  bool has_dump = false;
  bool is_guilty = false;
  std::string remark;  ///< "never entered all_reduce #412"
  int lanes = 1;
  std::vector<Bar> bars;
};

struct Timeline {
  std::vector<Row> rows;
  std::size_t left_out = 0;         ///< ranks for which there was no row
  std::vector<std::string> groups;  ///< in the picture, by name
  std::vector<double> times;        ///< of everything in it
  bool several_hosts = false;
};

Timeline make_timeline(const Job& job, const std::vector<Finding>& findings, std::size_t count,
                       std::size_t row_limit);

}  // namespace hymn::trace
