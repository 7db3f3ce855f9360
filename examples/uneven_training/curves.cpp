#include "examples/uneven_training/curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace uneven {
namespace {

constexpr double width = 420;
constexpr double height = 316;
constexpr double left = 56;
constexpr double right = 16;
constexpr double top = 72;
constexpr double bottom = 44;

/// One of the two diagrams: its place in the picture, and what its axes stand for.
struct Frame {
  double x;
  double least;
  double most;
  std::size_t epochs;

  double to_x(double epoch) const {
    const double last = std::max<double>(static_cast<double>(epochs), 2);
    return x + left + (width - left - right) * (epoch - 1) / (last - 1);
  }
  double to_y(double value) const {
    return top + (height - top - bottom) * (most - value) / (most - least);
  }
};

template <class... Values>
void put(std::string& svg, fmt::format_string<Values...> format, Values&&... values) {
  fmt::format_to(std::back_inserter(svg), format, std::forward<Values>(values)...);
}

void put_text(std::string& svg, double x, double y, const char* anchor, const std::string& words) {
  put(svg, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"11\">{}</text>\n", x, y,
      anchor, words);
}

void put_axes(std::string& svg, const Frame& frame, const std::string& name, bool percent) {
  constexpr int steps = 5;
  for (int i = 0; i <= steps; ++i) {
    const double value = frame.least + (frame.most - frame.least) * i / steps;
    put(svg, "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#d9dee3\"/>\n",
        frame.to_x(1), frame.x + width - right, frame.to_y(value), frame.to_y(value));
    put_text(svg, frame.to_x(1) - 6, frame.to_y(value) + 4, "end",
             percent ? fmt::format("{:.1f} %", 100 * value) : fmt::format("{:.2f}", value));
  }
  const std::size_t every = std::max<std::size_t>(1, frame.epochs / 6);
  for (std::size_t epoch = 1; epoch <= frame.epochs; epoch += every)
    put_text(svg, frame.to_x(static_cast<double>(epoch)), height - bottom + 16, "middle",
             fmt::format("{}", epoch));
  put_text(svg, frame.x + (width + left) / 2, height - 10, "middle", "epoch");
  put_text(svg, frame.to_x(1), top - 10, "start", name);
}

void put_curve(std::string& svg, const Frame& frame, const Curve& curve,
               const std::vector<double>& values) {
  put(svg, "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{} points=\"", curve.colour,
      curve.dashed ? "1.5" : "2.5", curve.dashed ? " stroke-dasharray=\"3 4\"" : "");
  for (std::size_t i = 0; i < values.size(); ++i)
    put(svg, "{:.1f},{:.1f} ", frame.to_x(static_cast<double>(i + 1)), frame.to_y(values[i]));
  svg += "\"/>\n";
}

void put_legend(std::string& svg, const std::vector<Curve>& curves) {
  double x = left;
  for (const Curve& curve : curves) {
    put(svg, "<rect x=\"{:.1f}\" y=\"30\" width=\"12\" height=\"4\" fill=\"{}\"/>\n", x,
        curve.colour);
    put_text(svg, x + 16, 36, "start", curve.name);
    x += 40 + 7 * static_cast<double>(curve.name.size());
  }
}

}  // namespace

std::string draw_curves(const std::vector<Curve>& curves, const std::string& title) {
  double most_loss = 0;
  double least_accuracy = 1;
  for (const Curve& curve : curves) {
    most_loss = std::max(most_loss, *std::ranges::max_element(curve.loss));
    least_accuracy = std::min(least_accuracy, *std::ranges::min_element(curve.accuracy));
  }
  const std::size_t epochs = curves.front().loss.size();
  const Frame loss{0, 0, std::max(most_loss, 1e-6), epochs};
  // Whole steps of 5 %, so that the axis tells round numbers.
  const Frame accuracy{width, std::min(std::floor(20 * least_accuracy) / 20, 0.95), 1, epochs};

  std::string svg;
  put(svg,
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
      "viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"DejaVu Sans, "
      "sans-serif\" "
      "fill=\"#1f2933\">\n<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      2 * width, height, title);
  put_text(svg, left, 18, "start", title);
  put_legend(svg, curves);
  put_axes(svg, loss, "loss in training", false);
  put_axes(svg, accuracy, "accuracy on the test", true);
  for (const Curve& curve : curves) {
    put_curve(svg, loss, curve, curve.loss);
    put_curve(svg, accuracy, curve, curve.accuracy);
  }
  return svg + "</svg>\n";
}

}  // namespace uneven
