// The library libhymn-png.so: what draws PNGs, with librsvg, cairo and all that they bring, which
// start only in a `hymn` that is asked for one.
#pragma once

#include <string>

namespace hymn {

constexpr const char* png_library = "libhymn-png.so";
constexpr const char* png_function = "hymn_draw_png";

enum class PictureOutcome { drawn, no_memory, no_picture };

/// As png_of(); the text is the PNG's bytes, or what has gone wrong.
struct Picture {
  PictureOutcome outcome = PictureOutcome::no_picture;
  std::string text;
};
using DrawPng = void (*)(const std::string& svg, double scale, Picture& picture);

}  // namespace hymn
