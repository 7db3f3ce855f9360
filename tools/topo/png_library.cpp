// librsvg and cairo draw the SVG into memory.
#include "tools/topo/png_library.hpp"

#include <cairo.h>
#include <librsvg/rsvg.h>

#include <algorithm>
#include <cmath>
#include <memory>

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

Picture failed(GError* error) {
  Picture picture{PictureOutcome::no_picture,
                  error != nullptr ? error->message : "no reason given"};
  g_clear_error(&error);
  return picture;
}

Picture failed(cairo_status_t status) {
  return {PictureOutcome::no_memory, cairo_status_to_string(status)};
}

cairo_status_t append(void* bytes, const unsigned char* data, unsigned int length) {
  try {
    static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  } catch (const std::bad_alloc&) {
    return CAIRO_STATUS_NO_MEMORY;  // an exception must not pass through C
  }
  return CAIRO_STATUS_SUCCESS;
}

Picture draw(RsvgHandle* handle, const RsvgRectangle& page) {
  const Owned<cairo_surface_t> surface(cairo_image_surface_create(
      CAIRO_FORMAT_ARGB32, static_cast<int>(page.width), static_cast<int>(page.height)));
  if (const auto status = cairo_surface_status(surface.get())) return failed(status);
  const Owned<cairo_t> context(cairo_create(surface.get()));
  GError* error = nullptr;
  if (!rsvg_handle_render_document(handle, context.get(), &page, &error)) return failed(error);
  if (const auto status = cairo_status(context.get())) return failed(status);
  Picture picture{PictureOutcome::drawn, {}};
  const auto written = cairo_surface_write_to_png_stream(surface.get(), append, &picture.text);
  return written == CAIRO_STATUS_SUCCESS ? picture : failed(written);
}

}  // namespace

/// What png_function names, of the type DrawPng.
extern "C" __attribute__((visibility("default"))) void hymn_draw_png(const std::string& svg,
                                                                     double scale,
                                                                     Picture& picture) {
  GError* error = nullptr;
  const Owned<RsvgHandle> handle(rsvg_handle_new_from_data(
      reinterpret_cast<const guint8*>(svg.data()), static_cast<gsize>(svg.size()), &error));
  double width = 0;
  double height = 0;
  if (!handle) {
    picture = failed(error);
  } else if (!rsvg_handle_get_intrinsic_size_in_pixels(handle.get(), &width, &height)) {
    picture = {PictureOutcome::no_picture, "it has no size"};
  } else {
    scale = std::min({scale, most_pixels / width, most_pixels / height});
    picture = draw(handle.get(), {0, 0, std::ceil(width * scale), std::ceil(height * scale)});
  }
}

}  // namespace hymn
