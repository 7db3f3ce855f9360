#include "tools/topo/png.hpp"

#include <dlfcn.h>

#include <utility>

#include "hymn/error.hpp"
#include "tools/topo/picture_library.hpp"

namespace hymn {
namespace {

/// It is looked for where this program's libraries are, and stays loaded.
DrawPng find_draw_png() {
  void* const library = ::dlopen(picture_library, RTLD_NOW | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : ::dlsym(library, picture_function);
  if (function != nullptr) return reinterpret_cast<DrawPng>(function);
  throw UnsupportedError(
      std::string("this hymn draws no PNG: ") + ::dlerror(),
      {.remedy = "write an SVG; or install librsvg2-dev, and build and install hymn again"});
}

}  // namespace

std::string png_of(const std::string& svg, double scale) {
  static const DrawPng draw_png = find_draw_png();
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
