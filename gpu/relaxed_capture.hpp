// Calls of the driver that break no capture of a graph.
#pragma once

#include "gpu/cuda_api.hpp"

namespace hymn {

/// While it lives, calls of its thread break no capture of another thread, and none of its own: in
/// the mode "global", which is usual, to ask for an event or to allocate would. hymn knows that
/// what it calls has nothing to do with what is captured. Costs two short calls, and throws
/// nothing.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const cuda_api::Functions& cuda) : cuda_(cuda) { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() {
    if (const auto exchange = cuda_.exchange_capture_mode.pointer) exchange(&mode_);
  }

  const cuda_api::Functions& cuda_;
  cuda_api::CaptureMode mode_ = cuda_api::capture_relaxed;
};

}  // namespace hymn
