// What all pictures of the `hymn` command are drawn with: boxes, text and their sizes, as SVG.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace hymn {

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double middle() const { return x + width / 2; }
};

constexpr std::string_view ink = "#1f2933";
constexpr std::string_view quiet_ink = "#616e7c";

/// How a rectangle is drawn; "none" leaves fill or stroke out.
struct Look {
  std::string_view fill;
  std::string_view stroke;
  double radius;
};

/// One SVG, written from its begin to its end.
class SvgSheet {
 public:
  void begin(double width, double height, const std::string& title);
  template <class... Values>
  void put(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Values>(values)...);
  }
  void rectangle(const Box& box, const Look& look, bool dashed = false);
  /// `anchor` is SVG's: "start", "middle" or "end". The words are escaped.
  void text(Point at, std::string_view anchor, double size, std::string_view colour, bool bold,
            const std::string& words);
  /// The whole picture; the sheet is empty afterwards.
  std::string end();

 private:
  std::string svg_;
};

std::string xml_escaped(std::string_view text);

/// Of DejaVu Sans, estimated from above.
double text_width(std::string_view text, double size, bool bold = false);
/// As much of the text as fits into that width, with "…" where it was cut.
std::string fitted(const std::string& text, double size, double width, bool bold = false);

}  // namespace hymn
