#include "tests/unit/fake_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

namespace hymn::test {
namespace {

FakeBox* described_box = nullptr;  // plain functions know nothing else

int index_of(nvml_api::Device device) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}
FakeGpu& gpu_of(nvml_api::Device device) {
  if (described_box->sessions == 0) ++described_box->calls_outside;
  return described_box->gpus.at(static_cast<std::size_t>(index_of(device)));
}
/// NVML's list leaves out what it does not know.
std::vector<int> known_to_nvml() {
  std::vector<int> known;
  for (int i = 0; i < static_cast<int>(described_box->gpus.size()); ++i) {
    if (!described_box->gpus[static_cast<std::size_t>(i)].unknown_to_nvml) known.push_back(i);
  }
  return known;
}

std::string bus_id(unsigned bus) { return fmt::format("00000000:{:02X}:00.0", bus); }

int link_end(nvml_api::Device device, unsigned link) {
  const auto& links = gpu_of(device).links;
  return links.at(link).end;
}
bool has_link(nvml_api::Device device, unsigned link) { return link < gpu_of(device).links.size(); }

void add_cuda(cuda_api::Functions& cuda) {
  cuda.init.pointer = [](unsigned) { return 0; };
  cuda.error_name.pointer = [](int, const char** name) {
    *name = "CUDA_ERROR_OF_A_TEST";
    return 0;
  };
  cuda.driver_version.pointer = [](int* version) { return *version = 13000, 0; };
  cuda.count.pointer = [](int* count) {
    return *count = static_cast<int>(described_box->visible.size()), 0;
  };
  // The number of a device is not its ordinal, so that a mix-up shows.
  cuda.device.pointer = [](int* device, int ordinal) {
    return *device = 100 + described_box->visible.at(static_cast<std::size_t>(ordinal)), 0;
  };
  cuda.name.pointer = [](char* text, int room, int device) {
    std::snprintf(text, static_cast<std::size_t>(room), "Test GPU %d", device - 100);
    return 0;
  };
  cuda.uuid.pointer = [](cuda_api::Uuid* uuid, int device) {
    uuid->bytes.fill(static_cast<unsigned char>(device - 100));
    // A slice has a UUID of its own.
    if (described_box->gpus.at(static_cast<std::size_t>(device - 100)).slice)
      uuid->bytes[15] = 0xff;
    return 0;
  };
  cuda.old_uuid.pointer = [](cuda_api::Uuid* uuid, int device) {
    uuid->bytes.fill(static_cast<unsigned char>(device - 100));
    return 0;
  };
  cuda.total_memory.pointer = [](std::size_t* bytes, int) { return *bytes = 80u << 20, 0; };
  cuda.attribute.pointer = [](int* value, int which, int) {
    return *value = which == cuda_api::attribute_compute_major ? 9 : 1, 0;
  };
  cuda.pci_bus_id.pointer = [](char* text, int room, int device) {
    const unsigned bus = described_box->gpus.at(static_cast<std::size_t>(device - 100)).bus;
    std::snprintf(text, static_cast<std::size_t>(room), "0000:%02x:00.0", bus);
    return 0;
  };
  cuda.can_access_peer.pointer = [](int* access, int from, int to) {
    if (from == to) return 101;  // the driver refuses it: invalid device
    const auto& peers = described_box->peers;
    *access = peers.empty() ||
              peers.at(static_cast<std::size_t>(from - 100)).at(static_cast<std::size_t>(to - 100));
    return 0;
  };
}

void add_nvml(nvml_api::Functions& nvml) {
  nvml.init.pointer = [] { return ++described_box->sessions, 0; };
  nvml.shutdown.pointer = [] { return --described_box->sessions, 0; };
  nvml.error_string.pointer = [](int) { return "a failure of the test"; };
  nvml.driver_version.pointer = [](char* text, unsigned room) {
    std::snprintf(text, room, "580.95.05");
    return 0;
  };
  nvml.count.pointer = [](unsigned* count) {
    return *count = static_cast<unsigned>(known_to_nvml().size()), 0;
  };
  nvml.device.pointer = [](unsigned index, nvml_api::Device* device) {
    const auto number = static_cast<std::uintptr_t>(known_to_nvml().at(index)) + 1;
    *device = reinterpret_cast<nvml_api::Device>(number);
    return 0;
  };
  nvml.uuid.pointer = [](nvml_api::Device device, char* text, unsigned room) {
    std::snprintf(text, room, "%s", uuid_of(index_of(device)).c_str());
    return 0;
  };
  nvml.pci_info.pointer = [](nvml_api::Device device, nvml_api::PciInfo* info) {
    bus_id(gpu_of(device).bus).copy(info->bus_id.data(), info->bus_id.size());
    return 0;
  };
  nvml.common_ancestor.pointer = [](nvml_api::Device a, nvml_api::Device b, unsigned* level) {
    *level = described_box->levels.empty()
                 ? nvml_api::level_system
                 : described_box->levels.at(static_cast<std::size_t>(index_of(a)))
                       .at(static_cast<std::size_t>(index_of(b)));
    return 0;
  };
}

void add_nvml_links(nvml_api::Functions& nvml) {
  nvml.link_state.pointer = [](nvml_api::Device device, unsigned link, unsigned* enabled) {
    if (gpu_of(device).links.empty()) return nvml_api::not_supported;
    if (!has_link(device, link)) return nvml_api::invalid_argument;
    *enabled = link_end(device, link) == FakeLink::down ? 0 : 1;
    return nvml_api::success;
  };
  nvml.link_capability.pointer = [](nvml_api::Device device, unsigned link, unsigned capability,
                                    unsigned* answer) {
    if (capability != nvml_api::capability_p2p) return nvml_api::invalid_argument;
    *answer = link_end(device, link) == FakeLink::unusable ? 0 : 1;
    return nvml_api::success;
  };
  nvml.link_remote_type.pointer = [](nvml_api::Device device, unsigned link, unsigned* type) {
    const int end = link_end(device, link);
    *type = end >= 0 ? nvml_api::remote_gpu
                     : (end == FakeLink::to_switch ? nvml_api::remote_switch : 1);
    return 0;
  };
  nvml.link_remote_pci.pointer = [](nvml_api::Device device, unsigned link,
                                    nvml_api::PciInfo* info) {
    const int end = link_end(device, link);
    const unsigned bus =
        end >= 0 ? described_box->gpus.at(static_cast<std::size_t>(end)).bus : 0xf0;
    bus_id(bus).copy(info->bus_id.data(), info->bus_id.size());
    return 0;
  };
  nvml.field_values.pointer = [](nvml_api::Device device, int count, nvml_api::FieldValue* values) {
    if (count != 1) return nvml_api::invalid_argument;
    const bool common = values->field == nvml_api::field_common_link_speed;
    const bool own = values->field == nvml_api::field_link_speed && has_link(device, values->scope);
    const unsigned speed =
        common ? described_box->common_speed : (own ? described_box->own_speed : 0);
    values->result = speed == 0 ? nvml_api::not_supported : nvml_api::success;
    values->type = nvml_api::type_unsigned_int;
    values->value.as_unsigned_int = speed;
    return nvml_api::success;
  };
}

}  // namespace

std::string uuid_of(int gpu) {
  const std::string byte = fmt::format("{:02x}", gpu);
  std::string text = "GPU";
  for (const int bytes : {4, 2, 2, 2, 6}) {
    text += '-';
    for (int i = 0; i < bytes; ++i) text += byte;
  }
  return text;
}

FakeBox pcie_box(int count) {
  FakeBox made;
  for (int i = 0; i < count; ++i) {
    made.gpus.emplace_back().bus = 0x18 + 0x10 * static_cast<unsigned>(i);
    made.visible.push_back(i);
  }
  return made;
}

FakeBox nvswitch_box() {
  FakeBox made = pcie_box(8);
  made.common_speed = 26562;
  for (FakeGpu& gpu : made.gpus) gpu.links.assign(18, {FakeLink::to_switch});
  return made;
}

FakeBox hybrid_cube_box() {
  // Two cliques of four GPUs with single and double links, joined by an edge from each corner to
  // its like. Every GPU has six links.
  static constexpr std::array<std::array<int, 3>, 16> edges = {{{0, 1, 1},
                                                                {0, 2, 1},
                                                                {0, 3, 2},
                                                                {1, 2, 2},
                                                                {1, 3, 1},
                                                                {2, 3, 2},
                                                                {4, 5, 1},
                                                                {4, 6, 1},
                                                                {4, 7, 2},
                                                                {5, 6, 2},
                                                                {5, 7, 1},
                                                                {6, 7, 2},
                                                                {0, 4, 2},
                                                                {1, 5, 2},
                                                                {2, 6, 1},
                                                                {3, 7, 1}}};
  FakeBox made = pcie_box(8);
  made.common_speed = 25781;
  for (const auto& [a, b, width] : edges) {
    for (int i = 0; i < width; ++i) {
      made.gpus[static_cast<std::size_t>(a)].links.push_back({b});
      made.gpus[static_cast<std::size_t>(b)].links.push_back({a});
    }
  }
  return made;
}

GpuFunctions functions_of(FakeBox& fake) {
  described_box = &fake;
  GpuFunctions functions;
  add_cuda(functions.cuda);
  add_nvml(functions.nvml);
  add_nvml_links(functions.nvml);
  return functions;
}

}  // namespace hymn::test
