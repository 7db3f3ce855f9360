// The messages of one rank through the staging buffers of its group: a line to each peer, and one
// from it.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>

#include "collectives/cuda/peer_channel.hpp"

namespace hymn {

/// Its calls are made by one thread at a time, under the queue's lock, but for those that say
/// otherwise. It must outlive the graphs into which messages were captured.
class MessageChannel {
 public:
  /// `staging_buffers` have boxes.
  explicit MessageChannel(std::shared_ptr<PeerChannel> staging_buffers)
      : staging_buffers_(std::move(staging_buffers)) {}
  ~MessageChannel();
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;

  PeerChannel& staging_buffers() const { return *staging_buffers_; }
  GpuDevice& gpu() const { return staging_buffers_->gpu(); }

  /// That of messages of this line which are given none. A line has one alone: a message that waits
  /// holds up no others. Thread-safe. Throws BackendError.
  cuda_api::Stream stream(int peer, bool is_send);

  struct Message {
    int peer;  ///< as a group rank
    bool is_send;
    void* data;
    std::size_t bytes;
  };
  /// Enqueues them: on each line one after the other, behind what was launched there before, unless
  /// they are captured; lines at the same time. (Beyond cuda::most_messages some wait for others.)
  /// Throws BackendError.
  void launch(std::span<const Message> messages, cuda_api::Stream stream, bool is_captured);

 private:
  struct Line {
    cuda_api::Stream stream = nullptr;  ///< of its own, once it is wanted
    cuda_api::Stream last_stream = nullptr;
    cuda_api::Event last = nullptr;  ///< behind the last message; null: none, or captured
  };
  using Lines = std::array<std::array<Line, 2>, cuda::most_peers>;
  Line& line(int peer, bool is_send) {
    return lines_[static_cast<std::size_t>(peer)][is_send ? 1 : 0];
  }
  void launch_at_once(std::span<const Message> messages, cuda_api::Stream stream, bool is_captured);

  const std::shared_ptr<PeerChannel> staging_buffers_;
  std::mutex mutex_;  // guards the making of streams
  Lines lines_{};
};

}  // namespace hymn
