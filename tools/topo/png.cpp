#include "tools/topo/png.hpp"

#include <utility>

#include "hymn/error.hpp"
#include "tools/loaded.hpp"
#include "tools/topo/png_library.hpp"

namespace hymn {

std::string png_of(const std::string& svg, double scale) {
  static const auto draw_png = reinterpret_cast<DrawPng>(
      loaded_name(png_library, png_function,
                  {.lack = "this hymn draws no PNG",
                   .remedy = "write an SVG; or install librsvg2-dev, and build and install hymn "
                             "again"}));
  Picture picture;
  draw_png(svg, scale, picture);
  switch (picture.outcome) {
    case PictureOutcome::drawn:
      return std::move(picture.text);
    case PictureOutcome::no_memory:
      throw ResourceError("the picture cannot be drawn: " + picture.text);
    case PictureOutcome::no_picture:
      break;
  }
  throw Error(ErrorKind::internal, "the picture cannot be drawn: " + picture.text);
}

}  // namespace hymn
