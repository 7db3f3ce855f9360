// Turns an SVG into a PNG.
#pragma once

#include <string>

namespace hymn {

/// The PNG's bytes; `scale` pixels for one unit of the SVG, less where the picture would become
/// larger than 16000 pixels in one direction. Throws ResourceError, an internal Error for an SVG
/// that cannot be drawn, or UnsupportedError where hymn was built without librsvg.
std::string png_of(const std::string& svg, double scale = 2);

}  // namespace hymn
