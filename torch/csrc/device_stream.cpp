// The order of what happens on a GPU.
#include "device_stream.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <utility>

#include "errors.hpp"
#include "gil.hpp"

namespace hymn_torch {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// Python alone has CUDA's own handle of a stream in all versions of torch.
DeviceStream::Made DeviceStream::make(c10::Device device) {
  if (!is_python_alive())
    throw_not_implemented("hymn: collectives on a GPU ask Python for a stream, which is not there");
  const pybind11::gil_scoped_acquire gil;
  const auto module = pybind11::module_::import("hymn_torch");
  const auto made = module.attr("_make_stream")(static_cast<int>(device.index()))
                        .cast<std::pair<c10::StreamId, std::uintptr_t>>();
  return {made.first, reinterpret_cast<hymnStream_t>(made.second)};
}

DeviceStream::DeviceStream(c10::Device device) : DeviceStream(device, make(device)) {}

void DeviceStream::follow_current() const {
  c10::Event now(stream_.device_type());
  now.record(current_stream(stream_.device()));
  now.block(stream_);
}

DeviceEnd::DeviceEnd(const c10::Stream& stream) : event_(stream.device_type()), stream_(stream) {
  event_.record(stream);
}

}  // namespace hymn_torch
