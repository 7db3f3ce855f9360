// One GPU as one rank uses it: its context, a stream of hymn's own, and events that are used again.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/private.hpp"
#include "gpu/cuda_api.hpp"
#include "gpu/relaxed_capture.hpp"

namespace hymn {

/// Thread-safe. Its users share it: what NCCL still holds may outlive the group, and the world.
class GpuDevice {
 public:
  /// `index` as the driver numbers GPUs in this process. Nothing happens on the GPU before it is
  /// needed: a context takes long to make.
  GpuDevice(const cuda_api::Functions& cuda, int index) : cuda_(cuda), index_(index) {}
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const cuda_api::Functions& cuda() const { return cuda_; }
  int index() const { return index_; }

  /// While it lives the GPU is current on its thread, whose calls break no capture; then what was
  /// so before. One inside of another for the same GPU costs nothing.
  class Entry {
   public:
    HYMN_PRIVATE explicit Entry(GpuDevice& gpu);
    HYMN_PRIVATE ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    GpuDevice& gpu_;
    const GpuDevice* const before_;  // which the thread had entered
    std::optional<RelaxedCapture> relaxed_;
  };
  /// For threads that hymn has started for the GPU: they break no capture.
  void make_current();
  /// The primary context, which the CUDA runtime uses, too.
  cuda_api::Context context();
  /// How many multiprocessors it has. Throws BackendError.
  int multiprocessors();

  /// hymn's own, one of each priority; made at the first call.
  cuda_api::Stream stream(bool high_priority);
  /// hymn's own, too, for copies alone: they wait for no collective, and no collective for them.
  cuda_api::Stream stream_for_copies();
  /// Another one, for who has to have one alone.
  HYMN_PRIVATE cuda_api::Stream make_stream(bool high_priority);
  HYMN_PRIVATE void destroy_stream(cuda_api::Stream stream) noexcept;
  /// hymn's own, too: what it is given from now on comes after what the GPU's legacy default stream
  /// holds now.
  cuda_api::Stream stream_behind_default();
  /// Throws UsageError for a stream of another GPU, or of another context than the primary one.
  HYMN_PRIVATE void require_own(cuda_api::Stream stream);
  /// A number that no other stream ever has, other than a handle, which is used again. 0: the
  /// driver, older than CUDA 12.0, has none.
  std::uint64_t id_of(cuda_api::Stream stream) const;
  /// Whether what is enqueued there goes into a graph instead.
  HYMN_PRIVATE bool is_capturing(cuda_api::Stream stream);

  /// An event that is recorded behind all that is on the stream now. To be given back.
  HYMN_PRIVATE cuda_api::Event mark(cuda_api::Stream stream);
  /// Whether all before it has happened. Throws BackendError when something of it has failed.
  HYMN_PRIVATE bool has_happened(cuda_api::Event event) const;
  /// Whether nothing before it goes on any more: it has happened, or something of it has failed.
  bool is_over(cuda_api::Event event) const noexcept;
  /// What is enqueued on the stream from now on waits for it. The host does not.
  HYMN_PRIVATE void wait_on(cuda_api::Stream stream, cuda_api::Event event);
  /// It may still be waited for by streams: these hold on to what they wait for.
  HYMN_PRIVATE void give_back(cuda_api::Event event);
  /// One that is given back in the end.
  class LentEvent {
   public:
    LentEvent(GpuDevice& gpu, cuda_api::Stream stream) : gpu_(gpu), event_(gpu.mark(stream)) {}
    ~LentEvent() { gpu_.give_back(event_); }
    LentEvent(const LentEvent&) = delete;
    LentEvent& operator=(const LentEvent&) = delete;
    bool has_happened() const { return gpu_.has_happened(event_); }

   private:
    GpuDevice& gpu_;
    const cuda_api::Event event_;
  };

  /// Why it has no memory in the order of a stream; empty: it has.
  HYMN_PRIVATE std::string lacks_stream_memory();
  /// Memory that exists for what is enqueued on the stream from now on, up to its release there.
  /// What a graph has of it is there while the graph runs. Throws BackendError.
  HYMN_PRIVATE cuda_api::Pointer allocate_on(cuda_api::Stream stream, std::size_t bytes);
  HYMN_PRIVATE void release_on(cuda_api::Stream stream, cuda_api::Pointer memory);

  /// A few bytes of its memory, that all may write, for operations without data. Zeros at first.
  cuda_api::Pointer scratch();
  static constexpr std::size_t scratch_bytes = 8;

 private:
  cuda_api::Stream own_stream(std::size_t which, bool high_priority);
  cuda_api::Stream create(bool high_priority) const;

  const cuda_api::Functions& cuda_;
  const int index_;
  std::mutex mutex_;  // guards what follows
  cuda_api::Device device_ = 0;
  cuda_api::Context context_ = nullptr;
  std::array<cuda_api::Stream, 3> streams_{};  // usual, of high priority, for copies
  cuda_api::Pointer scratch_ = 0;
  std::vector<cuda_api::Event> free_events_;
};

}  // namespace hymn
