// The kernels of GPUs, as the build has compiled them.
#pragma once

#include <cstddef>
#include <span>

namespace hymn::cuda {

/// As the driver loads it: machine code for several kinds of GPUs, and PTX for others. Empty where
/// hymn was built without nvcc.
std::span<const std::byte> kernel_image();

}  // namespace hymn::cuda
