#include "training/ready_marks.hpp"

#include <algorithm>
#include <numeric>

namespace hymn::training::detail {

void ReadyMarks::begin(std::optional<std::span<const std::size_t>> used) {
  std::ranges::fill(times_, 0u);
  order_.clear();
  if (used) {
    std::ranges::fill(expected_, 0u);
    for (const std::size_t parameter : *used) expected_[parameter] = 1;
  } else if (has_learned_) {
    expected_ = learned_;
  } else {
    std::ranges::fill(expected_, 1u);
  }
  outstanding_ = std::accumulate(expected_.begin(), expected_.end(), std::size_t{0});
}

ReadyMarks::Ready ReadyMarks::note(std::size_t parameter) {
  if (!is_learning() && times_[parameter] == expected_[parameter]) return Ready::too_often;
  if (times_[parameter]++ == 0) order_.push_back(parameter);
  has_gradient_[parameter] = 1;
  if (!is_learning()) --outstanding_;
  return !is_learning() && times_[parameter] == expected_[parameter] ? Ready::wholly
                                                                     : Ready::partly;
}

void ReadyMarks::learn() {
  learned_ = times_;
  has_learned_ = true;
}

std::vector<std::size_t> ReadyMarks::missing() const {
  std::vector<std::size_t> missing;
  if (is_learning()) return missing;
  for (std::size_t i = 0; i < times_.size(); ++i)
    if (times_[i] < expected_[i]) missing.push_back(i);
  return missing;
}

void ReadyMarks::forget_gradients() { std::ranges::fill(has_gradient_, std::uint8_t{0}); }

}  // namespace hymn::training::detail
