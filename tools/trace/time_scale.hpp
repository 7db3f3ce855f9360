// Where a moment stands in the picture.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hymn::trace {

/// A time axis that leaves out what nothing happens in: a job of milliseconds that has then waited
/// for half an hour would otherwise be one line and one bar.
class TimeScale {
 public:
  /// `times` are those at which something begins or ends, in seconds; at least one.
  TimeScale(std::vector<double> times, double left, double right);

  double at(double seconds) const;

  struct AxisBreak {
    double left = 0;  ///< in the picture
    double right = 0;
    double seconds = 0;  ///< left out
  };
  const std::vector<AxisBreak>& breaks() const { return breaks_; }

  struct Tick {
    double x = 0;
    std::string label;
  };
  /// Round times since the first, at most about `count` of them.
  std::vector<Tick> ticks(int count) const;

 private:
  void place(double left, double right);

  std::vector<double> times_;
  std::vector<bool> is_break_;  ///< the gap that follows this time
  std::vector<double> x_;
  std::vector<AxisBreak> breaks_;
  double shown_ = 0;  ///< seconds that are not left out
};

}  // namespace hymn::trace
