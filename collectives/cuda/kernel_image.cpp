#include "collectives/cuda/kernel_image.hpp"

#ifdef HYMN_KERNEL_IMAGE
asm(R"(
  .pushsection .rodata
  .balign 64
hymn_kernel_image_begin:
  .incbin ")" HYMN_KERNEL_IMAGE R"("
hymn_kernel_image_end:
  .popsection
)");
extern "C" __attribute__((visibility("hidden"))) const std::byte hymn_kernel_image_begin;
extern "C" __attribute__((visibility("hidden"))) const std::byte hymn_kernel_image_end;
#endif

namespace hymn::cuda {

std::span<const std::byte> kernel_image() {
#ifdef HYMN_KERNEL_IMAGE
  return {&hymn_kernel_image_begin, &hymn_kernel_image_end};
#else
  return {};
#endif
}

}  // namespace hymn::cuda
