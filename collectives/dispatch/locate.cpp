#include "collectives/dispatch/locate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/located_request.hpp"
#include "collectives/validate.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

/// Looks at all buffers of one request.
class Locator {
 public:
  Locator(MemoryQuery* memory, const DeviceReach& reach, bool has_stream)
      : memory_(memory), reach_(reach), has_stream_(has_stream) {}

  void look(std::string_view side, const ConstBufferView& view) {
    if (view.bytes() == 0) {
      is_said_ = is_said_ || view.memory == MemoryKind::device;
      return;
    }
    const MemoryAt found = memory_ != nullptr ? memory_->at(view.data) : MemoryAt{view.memory};
    if (found.kind == MemoryKind::managed) return;  // with all others, whatever these are
    const bool on_gpu = found.kind == MemoryKind::device;
    if (view.memory == MemoryKind::device && !on_gpu)
      throw UsageError(fmt::format("the {} buffer is said to be in device memory, but the driver "
                                   "knows of no allocation at {}",
                                   side, view.data),
                       {.remedy = "check whether it has been freed"});
    if (on_gpu && reach_.gpu == nullptr) refuse(side, name_of(found));
    if (!first_) {
      first_ = Side{side, found};
    } else if ((first_->found.kind == MemoryKind::device) != on_gpu ||
               (on_gpu && first_->found.gpu != found.gpu)) {
      throw UsageError(
          fmt::format("the buffers of one call are in different memories: the {} buffer is in "
                      "{}, the {} buffer in {}",
                      first_->name, name_of(first_->found), side, name_of(found)),
          {.remedy = "put all buffers of a call into the same memory"});
    }
    if (on_gpu) require_reach(side, view, found);
  }

  /// What has no place of its own, because it is managed or empty, is where it is ordered.
  bool is_on_gpu() const {
    return first_ ? first_->found.kind == MemoryKind::device : is_said_ || has_stream_;
  }

  /// After all buffers: that of another rank's may be empty here.
  void require_gpu_where_said() const {
    if (!first_ && is_said_ && reach_.gpu == nullptr) refuse("a", "device memory");
    if (!has_stream_) return;
    if (first_ && first_->found.kind != MemoryKind::device)
      throw UsageError(
          fmt::format("a stream is given, but the {} buffer is in host memory, or has been freed",
                      first_->name),
          {.remedy = "give buffers in device memory, or leave the stream out"});
  }

 private:
  struct Side {
    std::string_view name;
    MemoryAt found;
  };

  static std::string name_of(const MemoryAt& found) {
    return found.kind == MemoryKind::device
               ? fmt::format("{}{}", found.gpu < 0 ? "device memory" : "the memory of GPU ",
                             found.gpu < 0 ? "" : std::to_string(found.gpu))
               : "host memory";
  }
  std::string why() const { return reach_.why_not.empty() ? "" : ": " + reach_.why_not; }
  [[noreturn]] void refuse(std::string_view side, const std::string& where) const {
    throw UnsupportedError(
        fmt::format("the {} buffer is in {}, which no path of this group reaches{}", side, where,
                    why()),
        {.remedy = "copy it to host memory; device buffers need a group on GPUs"});
  }

  void require_reach(std::string_view side, const ConstBufferView& view,
                     const MemoryAt& found) const {
    if (found.gpu >= 0 && found.gpu != reach_.gpu->index())
      throw UsageError(
          fmt::format("the {} buffer is in the memory of GPU {}, but in this group this "
                      "rank works on GPU {}",
                      side, found.gpu, reach_.gpu->index()),
          {.remedy = fmt::format("make a group for that GPU: GroupOptions::gpu = {}; or "
                                 "allocate on GPU {} (cudaSetDevice)",
                                 found.gpu, reach_.gpu->index())});
    require_end(side, view, found);
    const auto address = reinterpret_cast<std::uintptr_t>(view.data);
    if (address % alignment_of(view.dtype) != 0)
      throw UsageError(fmt::format("the {} buffer begins at {}, which is not aligned for {}", side,
                                   view.data, to_string(view.dtype)),
                       {.remedy = "align it to the size of its elements"});
  }

  /// Several allocations may lie side by side, as parts of one range of addresses.
  void require_end(std::string_view side, const ConstBufferView& view,
                   const MemoryAt& found) const {
    const std::size_t left =
        found.begin + found.bytes - reinterpret_cast<std::uintptr_t>(view.data);
    if (memory_ == nullptr || view.bytes() <= left) return;
    const MemoryAt last = memory_->at(static_cast<const std::byte*>(view.data) + view.bytes() - 1);
    if (last.kind == found.kind && last.gpu == found.gpu) return;
    throw UsageError(fmt::format("the {} buffer has {} bytes, but only {} are left of the "
                                 "allocation at {}",
                                 side, view.bytes(), left, view.data),
                     {.remedy = "check the count and the dtype, or allocate more"});
  }

  /// Of a complex number it is that of its parts.
  static std::size_t alignment_of(DataType dtype) {
    const std::size_t bytes = std::max<std::size_t>(size_of(dtype), 1);
    return traits_of(dtype).family == DataFamily::complex ? bytes / 2 : bytes;
  }

  MemoryQuery* memory_;
  const DeviceReach& reach_;
  bool has_stream_;
  bool is_said_ = false;  // by a buffer without elements
  std::optional<Side> first_;
};

}  // namespace

// A default stream is that of the GPU that is current on the caller's thread.
void require_own_stream(void* stream, const DeviceReach& reach) {
  if (reach.gpu == nullptr)
    throw UnsupportedError(
        fmt::format("a stream is given, but no path of this group works on streams{}{}",
                    reach.why_not.empty() ? "" : ": ", reach.why_not),
        {.remedy = "leave the stream out"});
  reach.gpu->require_own(static_cast<cuda_api::Stream>(stream));
}

std::shared_ptr<const Request> locate(const Request& request, bool is_root, MemoryQuery* memory,
                                      const DeviceReach& reach) {
  const bool has_stream = request.domain.kind != OrderingDomain::Kind::host;
  Locator locator(memory, reach, has_stream);
  if (uses_inputs(request.type, is_root))
    for (const ConstBufferView& view : request.inputs.views()) locator.look("input", view);
  if (uses_outputs(request.type, is_root))
    for (const BufferView& view : request.outputs.views())
      locator.look("output", ConstBufferView(view));
  if (has_stream) require_own_stream(request.domain.stream, reach);
  locator.require_gpu_where_said();
  if (!locator.is_on_gpu()) return nullptr;
  const auto located = std::make_shared<LocatedRequest>(request, MemoryKind::device);
  return {located, &located->request};
}

}  // namespace hymn
