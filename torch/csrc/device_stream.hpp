// The order of what happens on a GPU: torch's streams, and a group's collectives between them.
//
// c10's interface for devices of any kind is all that is used, so that no header of CUDA's is
// needed, and what is built serves every wheel of the same torch.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <hymn/hymn.h>

namespace hymn_torch {

/// That of this thread, on the device.
c10::Stream current_stream(c10::Device device);

/// The stream of torch's on which a group's collectives on one GPU run, as those of NCCL's backend
/// do, so that other streams compute meanwhile.
class DeviceStream {
 public:
  /// Needs Python, which is asked for it.
  explicit DeviceStream(c10::Device device);

  hymnStream_t handle() const { return handle_; }
  c10::Stream stream() const { return stream_; }
  /// What comes next here waits for what this thread's current stream holds.
  void follow_current() const;

 private:
  struct Made {
    c10::StreamId id;
    hymnStream_t handle;
  };
  static Made make(c10::Device device);
  DeviceStream(c10::Device device, const Made& made)
      : stream_(c10::Stream::UNSAFE, device, made.id), handle_(made.handle) {}

  c10::Stream stream_;
  hymnStream_t handle_;
};

/// The point of a stream at which an operation, with the copies of its results, is over.
class DeviceEnd {
 public:
  /// After all that the stream holds.
  explicit DeviceEnd(const c10::Stream& stream);

  bool is_reached() const { return event_.query(); }
  /// The host waits.
  void await() const { event_.synchronize(); }
  /// What comes next on this thread's current stream waits; the host does not.
  void hold_up_current() const { event_.block(current_stream(stream_.device())); }
  c10::Stream stream() const { return stream_; }

 private:
  c10::Event event_;
  c10::Stream stream_;
};

}  // namespace hymn_torch
