// What ranks print, line by line with the rank before it.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "tools/run/rank_processes.hpp"

namespace hymn {

class Labels {
 public:
  explicit Labels(std::vector<RankProcesses::Output>& outputs);

  /// Appends what poll() is to look at.
  void add_to(std::vector<pollfd>& polled) const;
  /// Hands on what has come.
  void hand_on();
  /// There was no room for all.
  bool has_lost_some() const { return has_lost_some_; }

 private:
  /// One file of one rank.
  struct Source {
    int rank;
    Descriptor pipe;
    int to;              ///< this process's own
    std::string rest{};  ///< of a line that has not ended
  };
  void read_some(Source& source);
  void write_lines(Source& source);

  std::vector<Source> sources_;
  bool has_lost_some_ = false;
};

}  // namespace hymn
