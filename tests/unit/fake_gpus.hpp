// A driver and an NVML for tests of the GPU probe: they answer from a box that the test describes.
#pragma once

#include <string>
#include <vector>

#include "gpu/gpu_functions.hpp"

namespace hymn::test {

/// What an NVLink of a GPU ends at.
struct FakeLink {
  static constexpr int to_switch = -1;
  static constexpr int to_processor = -2;
  static constexpr int down = -3;
  static constexpr int unusable = -4;  // it is up, but peers cannot use it
  int end = down;                      // or the index of a GPU of the box
};

struct FakeGpu {
  std::vector<FakeLink> links;
  unsigned bus = 0;
  bool slice = false;  // CUDA sees a slice of it
  bool unknown_to_nvml = false;
};

struct FakeBox {
  std::vector<FakeGpu> gpus;
  std::vector<int> visible;                   // in CUDA's order
  std::vector<std::vector<unsigned>> levels;  // topology levels; empty: 50 for all
  std::vector<std::vector<bool>> peers;       // empty: all can
  unsigned common_speed = 0;                  // MB/s; 0: NVML cannot tell
  unsigned own_speed = 0;                     // of each link, as newer versions tell it
  int sessions = 0;                           // NVML's, that are open
  int calls_outside = 0;                      // to NVML without a session
};

/// Boxes of `count` GPUs, all visible.
FakeBox pcie_box(int count);
FakeBox nvswitch_box();     // 8 GPUs, 18 links of 26562 MB/s each
FakeBox hybrid_cube_box();  // 8 GPUs, 6 links of 25781 MB/s each; see the source

/// Functions that answer from `box` from now on.
GpuFunctions functions_of(FakeBox& box);

/// The same text as NVML's, for the GPU of that index of the box.
std::string uuid_of(int gpu);

}  // namespace hymn::test
