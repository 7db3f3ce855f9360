#include "collectives/cuda/message_algorithm.hpp"

#include <utility>
#include <vector>

#include "collectives/cuda/abandoned_peer_operation.hpp"
#include "collectives/cuda/message_channel.hpp"
#include "collectives/cuda/peer_models.hpp"
#include "collectives/launch/gpu_operation.hpp"

namespace hymn {
namespace {

/// One send or receive on its way to the GPU.
class MessageLaunch final : public GpuLaunch {
 public:
  MessageLaunch(MessageChannel& channel, const Request& request, int peer)
      : GpuLaunch(request), channel_(channel), peer_(peer) {}

 private:
  GpuDevice& gpu() const override { return channel_.gpu(); }
  cuda_api::Stream own_stream() override { return channel_.stream(peer_, is_send()); }
  // All of a group have one order: a line is used from several streams.
  const void* lane() const override { return &channel_; }
  bool is_ready() override {
    channel_.staging_buffers().check();
    return true;
  }
  void enqueue() override { channel_.launch({{message()}}, stream(), is_captured()); }
  void enqueue_together(std::span<GpuLaunch* const> together) override;

  bool is_send() const { return request().type == OpType::send; }
  MessageChannel::Message message() const {
    const ConstBufferView& in = request().inputs.flat();
    const BufferView& out = request().outputs.flat();
    if (is_send()) return {peer_, true, const_cast<void*>(in.data), in.bytes()};
    return {peer_, false, out.data, out.bytes()};
  }

  MessageChannel& channel_;
  const int peer_;
};

// Those that follow each other on one stream are one kernel, in which none waits for another line.
void MessageLaunch::enqueue_together(std::span<GpuLaunch* const> together) {
  const auto launch_of = [&together](std::size_t i) -> MessageLaunch& {
    return static_cast<MessageLaunch&>(*together[i]);
  };
  std::vector<MessageChannel::Message> messages;
  for (std::size_t i = 0; i < together.size(); ++i) {
    MessageLaunch& launch = launch_of(i);
    messages.push_back(launch.message());
    if (i + 1 < together.size() && launch_of(i + 1).stream() == launch.stream()) continue;
    channel_.launch(messages, launch.stream(), launch.is_captured());
    messages.clear();
  }
}

class MessageOperation final : public GpuOperation {
 public:
  MessageOperation(std::shared_ptr<MessageChannel> channel, const Call& call)
      : GpuOperation(*channel->staging_buffers().parts().queue, channel->gpu(), launch_),
        channel_(std::move(channel)),
        is_on_stream_(call.request->domain.kind != OrderingDomain::Kind::host),
        launch_(*channel_, *call.request, call.peer) {
    if (call.request->type == OpType::recv)
      status_ = {.source = call.peer, .count = call.request->outputs.flat().count};
  }

  // On a stream those that come right after it may have to go together with it.
  void start() override {
    queue().add(launch_);
    if (!is_on_stream_) queue().advance();
  }

  // One that was left out would shift all that follow on its line: the group ends with it.
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    queue().remove(launch_);
    channel_->staging_buffers().abort();
    cuda_api::Event event = has_landed() ? nullptr : launch_.event();
    if (!has_landed() && launch_.stage() == GpuLaunch::Stage::failed)
      event = launch_.mark_what_is_there();
    return std::make_unique<AbandonedPeerOperation<MessageChannel>>(channel_, event);
  }

  RecvStatus status() const override { return status_; }

 private:
  void check() override { channel_->staging_buffers().check(); }

  std::shared_ptr<MessageChannel> channel_;
  const bool is_on_stream_;
  MessageLaunch launch_;
  RecvStatus status_;
};

class PeerMessages final : public Algorithm {
 public:
  explicit PeerMessages(std::shared_ptr<MessageChannel> channel)
      : Algorithm(peer_models::windows, send_and_recv), channel_(std::move(channel)) {}
  Verdict can_run(const Request& request) const override {
    if (request.tag != 0) return Verdict::no("messages through staging buffers have no tags");
    if (request.type == OpType::recv && request.peer == any_source)
      return Verdict::no("staging buffers have no messages from any source");
    return can_move_bytes(request);
  }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<MessageOperation>(channel_, call);
  }

 private:
  std::shared_ptr<MessageChannel> channel_;
};

}  // namespace

std::unique_ptr<Algorithm> make_peer_messages(const std::shared_ptr<PeerChannel>& channel,
                                              std::string reason) {
  if (channel == nullptr)
    return std::make_unique<AbsentAlgorithm>(peer_models::windows, send_and_recv,
                                             std::move(reason));
  return std::make_unique<PeerMessages>(std::make_shared<MessageChannel>(channel));
}

}  // namespace hymn
