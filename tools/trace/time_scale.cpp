#include "tools/trace/time_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hymn::trace {

namespace {

constexpr std::size_t most_cuts = 6;
// Of the width: for each cut, and for all.
constexpr double break_share = 0.18;
constexpr double breaks_share = 0.36;
// Of what is shown, in the picture's units; and of the width, for all of them.
constexpr double least_gap = 12;
constexpr double least_share = 0.6;

// Gaps that are longer than half of all the others together are left out.
std::vector<bool> long_gaps(const std::vector<double>& gaps) {
  std::vector<std::size_t> order(gaps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return gaps[a] > gaps[b]; });
  std::vector<bool> is_long(gaps.size(), false);
  constexpr std::size_t fewest_gaps = 4;
  if (gaps.size() < fewest_gaps) return is_long;
  for (std::size_t i = 0; i < most_cuts && i + 2 < order.size(); ++i) {
    const double gap = gaps[order[i]];
    // Summed up anew: taken off from a sum, short gaps would be lost beside long ones.
    const double others =
        std::accumulate(order.begin() + static_cast<std::ptrdiff_t>(i) + 1, order.end(), 0.0,
                        [&](double sum, std::size_t g) { return sum + gaps[g]; });
    if (!(others > 0) || gap < others / 2) break;
    is_long[order[i]] = true;
  }
  return is_long;
}

// 1, 2 or 5 of a power of ten.
double round_step(double seconds) {
  const double power = std::pow(10.0, std::floor(std::log10(seconds)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= seconds) return factor * power;
  return 10 * power;
}

std::string tick_label(double seconds, double step) {
  if (step >= 1) return fmt::format("{:.0f} s", seconds);
  if (seconds < 1 && step >= 1e-3) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 1e-3) return fmt::format("{:.{}f} us", seconds * 1e6, step < 1e-6 ? 3 : 0);
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 9);
  return fmt::format("{:.{}f} s", seconds, digits);
}

}  // namespace

TimeScale::TimeScale(std::vector<double> times, double left, double right)
    : times_(std::move(times)) {
  std::sort(times_.begin(), times_.end());
  times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
  std::vector<double> gaps;
  for (std::size_t i = 1; i < times_.size(); ++i) gaps.push_back(times_[i] - times_[i - 1]);
  is_break_ = long_gaps(gaps);
  for (std::size_t i = 0; i < gaps.size(); ++i)
    if (!is_break_[i]) shown_ += gaps[i];
  place(left, right);
}

void TimeScale::place(double left, double right) {
  const auto breaks = static_cast<double>(std::count(is_break_.begin(), is_break_.end(), true));
  const double break_width =
      (right - left) * std::min(break_share, breaks_share / std::max(breaks, 1.0));
  const double width = right - left - breaks * break_width;
  // What lies close together still has to be told apart, as far as there is room.
  const double shown_gaps = static_cast<double>(is_break_.size()) - breaks;
  const double least = shown_gaps > 0 ? std::min(least_gap, least_share * width / shown_gaps) : 0;
  double x = left;
  x_.push_back(x);
  for (std::size_t i = 0; i < is_break_.size(); ++i) {
    const double gap = times_[i + 1] - times_[i];
    const double share = shown_ > 0 ? gap / shown_ * (width - least * shown_gaps) : 0;
    const double wide = is_break_[i] ? break_width : share + least;
    if (is_break_[i]) breaks_.push_back({x, x + wide, gap});
    x_.push_back(x += wide);
  }
}

double TimeScale::at(double seconds) const {
  const auto after = std::upper_bound(times_.begin(), times_.end(), seconds);
  if (after == times_.begin()) return x_.front();
  if (after == times_.end()) return x_.back();
  const auto i = static_cast<std::size_t>(after - times_.begin());
  const double share = (seconds - times_[i - 1]) / (times_[i] - times_[i - 1]);
  return x_[i - 1] + share * (x_[i] - x_[i - 1]);
}

std::vector<TimeScale::Tick> TimeScale::ticks(int count) const {
  if (!(shown_ > 0) || !std::isfinite(shown_)) return {{x_.front(), "0 s"}};
  const double step = round_step(shown_ / count);
  std::vector<Tick> ticks;
  const auto most = static_cast<std::size_t>(count) * 4;
  // One after the other through what is shown; over a cut to the first round time behind it.
  for (std::size_t i = 0; i < is_break_.size() && ticks.size() < most; ++i) {
    if (is_break_[i]) continue;
    const double from = times_[i] - times_.front();
    const double to = times_[i + 1] - times_.front();
    for (double n = std::ceil(from / step); n * step < to && ticks.size() < most; n += 1) {
      ticks.push_back({at(times_.front() + n * step), tick_label(n * step, step)});
      if (n + 1 <= n) break;  // so far away that steps are lost in rounding
    }
  }
  return ticks;
}

}  // namespace hymn::trace
