// librsvg and cairo draw the SVG into memory.
#include "tools/topo/png.hpp"

#include <cairo.h>
#include <fmt/format.h>
#include <librsvg/rsvg.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "hymn/error.hpp"

namespace hymn {

namespace {

constexpr double most_pixels = 16000;

struct Free {
  void operator()(RsvgHandle* handle) const { g_object_unref(handle); }
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_t* context) const { cairo_destroy(context); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

[[noreturn]] void fail(GError* error) {
  const std::string problem = error != nullptr ? error->message : "no reason given";
  g_clear_error(&error);
  throw Error(ErrorKind::internal, "the picture cannot be drawn: " + problem);
}

void check_cairo(cairo_status_t status) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw ResourceError(
      fmt::format("the picture cannot be drawn: {}", cairo_status_to_string(status)));
}

cairo_status_t append(void* bytes, const unsigned char* data, unsigned int length) {
  try {
    static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  } catch (const std::bad_alloc&) {
    return CAIRO_STATUS_NO_MEMORY;  // an exception must not pass through C
  }
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

std::string png_of(const std::string& svg, double scale) {
  GError* error = nullptr;
  const Owned<RsvgHandle> handle(rsvg_handle_new_from_data(
      reinterpret_cast<const guint8*>(svg.data()), static_cast<gsize>(svg.size()), &error));
  if (!handle) fail(error);
  double width = 0;
  double height = 0;
  if (!rsvg_handle_get_intrinsic_size_in_pixels(handle.get(), &width, &height))
    throw Error(ErrorKind::internal, "the picture has no size");
  scale = std::min({scale, most_pixels / width, most_pixels / height});
  const RsvgRectangle page{0, 0, std::ceil(width * scale), std::ceil(height * scale)};
  const Owned<cairo_surface_t> surface(cairo_image_surface_create(
      CAIRO_FORMAT_ARGB32, static_cast<int>(page.width), static_cast<int>(page.height)));
  check_cairo(cairo_surface_status(surface.get()));
  const Owned<cairo_t> context(cairo_create(surface.get()));
  if (!rsvg_handle_render_document(handle.get(), context.get(), &page, &error)) fail(error);
  check_cairo(cairo_status(context.get()));
  std::string png;
  check_cairo(cairo_surface_write_to_png_stream(surface.get(), append, &png));
  return png;
}

}  // namespace hymn
