// The links between the GPUs of one host, drawn below them.
#pragma once

#include "tools/topo/layout.hpp"

namespace hymn {

/// Finds sets of GPUs that links of one kind hold together: a number for each GPU, -1 for GPUs
/// without such a link.
std::vector<int> linked_sets(const Machine& machine, GpuLinkKind kind);

/// Adds NVSwitches and NVLinks below the GPU blocks that the host has. Every link runs on a track
/// of its own, so that it can be followed from one GPU to the other. Returns the lower edge of
/// all; `note` is told what is left out.
double add_gpu_links(Block& host, const Machine& machine, std::string& note);

}  // namespace hymn
