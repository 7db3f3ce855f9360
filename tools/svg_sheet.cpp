// Boxes and text as SVG.
#include "tools/svg_sheet.hpp"

namespace hymn {

namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// In units of the letters' size, of DejaVu Sans.
double width_of(char c) {
  constexpr std::string_view narrow = " .,:;'|!ijltfrI()[]/-";
  constexpr std::string_view wide = "mwMW@%";
  if (narrow.find(c) != std::string_view::npos) return 0.42;
  if (wide.find(c) != std::string_view::npos) return 1.0;
  if (c >= 'A' && c <= 'Z') return 0.72;
  return static_cast<unsigned char>(c) < 0x80 ? 0.64 : 0.84;
}

}  // namespace

void SvgSheet::begin(double width, double height, const std::string& title) {
  svg_.clear();
  put(R"(<?xml version="1.0" encoding="UTF-8"?>)"
      "\n");
  put(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.5g} {1:.5g}" width="{0:.5g}" height="{1:.5g}" font-family="DejaVu Sans, sans-serif">)",
      width, height);
  put("\n<title>{}</title>\n", xml_escaped(title));
  rectangle({0, 0, width, height}, {"#ffffff", "none", 0});
}

void SvgSheet::rectangle(const Box& box, const Look& look, bool dashed) {
  if (look.fill == "none" && look.stroke == "none") return;
  put(R"(<rect x="{:.5g}" y="{:.5g}" width="{:.5g}" height="{:.5g}" rx="{:.3g}" fill="{}")", box.x,
      box.y, box.width, box.height, look.radius, look.fill);
  if (look.stroke != "none") put(R"( stroke="{}")", look.stroke);
  if (dashed) put(R"( stroke-dasharray="2 2")");
  put("/>\n");
}

void SvgSheet::text(Point at, std::string_view anchor, double size, std::string_view colour,
                    bool bold, const std::string& words) {
  if (words.empty()) return;
  put(R"(<text x="{:.5g}" y="{:.5g}" font-size="{:.3g}" fill="{}")", at.x, at.y, size, colour);
  if (anchor != "start") put(R"( text-anchor="{}")", anchor);
  if (bold) put(R"( font-weight="bold")");
  put(">{}</text>\n", xml_escaped(words));
}

std::string SvgSheet::end() {
  svg_ += "</svg>\n";
  return std::exchange(svg_, {});
}

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&apos;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

double text_width(std::string_view text, double size, bool bold) {
  double width = 0;
  for (const char c : text)
    if (begins_character(c)) width += width_of(c);
  return width * size * (bold ? 1.12 : 1.0);
}

std::string fitted(const std::string& text, double size, double width, bool bold) {
  if (text_width(text, size, bold) <= width) return text;
  std::size_t end = text.size();
  while (end > 0 && text_width(text.substr(0, end) + "…", size, bold) > width) {
    --end;
    while (end > 0 && !begins_character(text[end])) --end;
  }
  return end == 0 ? "" : text.substr(0, end) + "…";
}

}  // namespace hymn
