// A picture of learning curves.
#pragma once

#include <string>
#include <vector>

namespace uneven {

struct Curve {
  std::string name;
  std::string colour;
  bool dashed = false;
  std::vector<double> loss{};      ///< mean over the samples of each epoch
  std::vector<double> accuracy{};  ///< on the test, after each epoch, 0 to 1
};

/// Two diagrams beside each other, loss and accuracy by epoch, as SVG. Curves have at least one
/// epoch, all of them as many.
std::string draw_curves(const std::vector<Curve>& curves, const std::string& title);

}  // namespace uneven
