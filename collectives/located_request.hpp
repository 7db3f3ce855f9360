// A request whose views, with their shapes and strides, are its own, so that they can be changed.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "hymn/request.hpp"

namespace hymn {

struct LocatedRequest {
  explicit LocatedRequest(const Request& given)
      : inputs(given.inputs.views().begin(), given.inputs.views().end()),
        outputs(given.outputs.views().begin(), given.outputs.views().end()),
        request(given) {
    for (ConstBufferView& view : inputs) keep_layout(view);
    for (BufferView& view : outputs) keep_layout(view);
    point_to_views();
  }
  /// All its views say that they are in that memory. What is on the host is ordered by no stream.
  LocatedRequest(const Request& given, MemoryKind memory) : LocatedRequest(given) {
    for (ConstBufferView& view : inputs) view.memory = memory;
    for (BufferView& view : outputs) view.memory = memory;
    if (memory == MemoryKind::host) request.domain = {};
    point_to_views();
  }
  LocatedRequest(const LocatedRequest&) = delete;
  LocatedRequest& operator=(const LocatedRequest&) = delete;

  /// A shape, or strides, of one of its views.
  std::span<const std::int64_t> keep(std::vector<std::int64_t> sizes) {
    return kept_.emplace_back(std::move(sizes));
  }
  /// After the views have changed.
  void point_to_views() {
    request.inputs = with_views(request.inputs, inputs);
    request.outputs = with_views(request.outputs, outputs);
  }

  std::vector<ConstBufferView> inputs;
  std::vector<BufferView> outputs;
  Request request;  ///< its counts are the given one's

 private:
  std::deque<std::vector<std::int64_t>> kept_;

  template <class View>
  void keep_layout(View& view) {
    if (!view.shape.empty()) view.shape = keep({view.shape.begin(), view.shape.end()});
    if (!view.strides.empty()) view.strides = keep({view.strides.begin(), view.strides.end()});
  }
  template <class View>
  static Blocks<View> with_views(const Blocks<View>& blocks, const std::vector<View>& views) {
    switch (blocks.layout()) {
      case Layout::whole:
        return Blocks<View>::whole(views.front());
      case Layout::equal:
        return Blocks<View>::equal(views.front());
      case Layout::counted:
        return Blocks<View>::counted(views.front(), blocks.counts());
      case Layout::list:
        return Blocks<View>::list(views);
      case Layout::none:
        break;
    }
    return blocks;
  }
};

}  // namespace hymn
