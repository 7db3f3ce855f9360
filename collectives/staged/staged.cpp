#include "collectives/staged/staged.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/paths.hpp"
#include "collectives/located_request.hpp"
#include "collectives/validate.hpp"
#include "gpu/cuda_calls.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

using cuda_api::Event;
using cuda_api::Stream;

/// Of the buffers of a request, which are on the GPU, their copies on the host. What is given for
/// input and for output has one copy.
class Copies {
 public:
  Copies(StagingArea& area, const Request& given, bool is_root)
      : area_(area),
        given_(given),
        has_input_(uses_inputs(given.type, is_root)),
        has_output_(uses_outputs(given.type, is_root)),
        on_host_(given, MemoryKind::host) {
    try {
      if (has_input_)
        for (ConstBufferView& view : on_host_.inputs) view.data = copy_of(view);
      if (has_output_)
        for (BufferView& view : on_host_.outputs) view.data = copy_of(view);
    } catch (...) {
      give_back();
      throw;
    }
    on_host_.point_to_views();
  }
  ~Copies() { give_back(); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  const Request& request() const { return on_host_.request; }

  void bring_in(Stream stream) {
    const GpuDevice::Entry entry(*area_.gpu);
    if (!has_input_) return;
    for (const ConstBufferView& view : given_.inputs.views())
      if (view.bytes() > 0)
        call(cuda(), cuda().to_host_on, copy_of(view), at(view.data), view.bytes(), stream);
  }
  /// `most`: elements of each buffer.
  void bring_back(Stream stream, std::size_t most) {
    const GpuDevice::Entry entry(*area_.gpu);
    if (!has_output_) return;
    for (const BufferView& view : given_.outputs.views())
      if (const std::size_t bytes = std::min(view.count, most) * view.element_bytes(); bytes > 0)
        call(cuda(), cuda().to_gpu_on, at(view.data), static_cast<const void*>(copy_of(view)),
             bytes, stream);
  }

 private:
  struct Pair {
    const void* on_gpu;
    std::size_t bytes;
    PinnedPool::Block copy;
  };
  static cuda_api::Pointer at(const void* pointer) {
    return reinterpret_cast<cuda_api::Pointer>(pointer);
  }
  const cuda_api::Functions& cuda() const { return area_.gpu->cuda(); }
  /// Made when it is first asked for; null for no bytes.
  template <class View>
  void* copy_of(const View& view) {
    const std::size_t bytes = view.bytes();
    if (bytes == 0) return nullptr;
    for (const Pair& pair : pairs_)
      if (pair.on_gpu == view.data && pair.bytes == bytes) return pair.copy.data;
    pairs_.push_back({view.data, bytes, area_.pool.take(bytes)});
    return pairs_.back().copy.data;
  }
  void give_back() {
    for (const Pair& pair : pairs_) area_.pool.give_back(pair.copy);
  }

  StagingArea& area_;
  const Request& given_;
  bool has_input_;
  bool has_output_;
  std::vector<Pair> pairs_;
  LocatedRequest on_host_;
};

/// What must stay until the GPU and whoever carries the request have let go of it. The request that
/// was given may be gone by then.
struct Staging {
  Staging(std::shared_ptr<StagingArea> staging_area, const Call& given, bool is_root)
      : area(std::move(staging_area)), copies(*area, *given.request, is_root) {
    call.request = &copies.request();
    call.peer = given.peer;
    call.order = given.order;
    call.whole_label = given.whole_label;
  }
  ~Staging() {
    if (event != nullptr) area->gpu->give_back(event);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  bool is_idle() const { return event == nullptr || area->gpu->is_over(event); }

  std::shared_ptr<StagingArea> area;
  Copies copies;
  Call call;
  OperationStorage carrier;
  Event event = nullptr;  ///< behind the last copies
};

class AbandonedStagedOperation final : public AbandonedOperation {
 public:
  AbandonedStagedOperation(std::unique_ptr<Staging> staging,
                           std::unique_ptr<AbandonedOperation> carriers)
      : staging_(std::move(staging)), carriers_(std::move(carriers)) {}
  bool done() override {
    if (carriers_ != nullptr && !carriers_->done()) return false;
    return staging_->is_idle();
  }

 private:
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<AbandonedOperation> carriers_;  // gone before the memory that it holds
};

class StagedOperation final : public Operation {
 public:
  StagedOperation(std::unique_ptr<Staging> staging, const Call& call, Algorithm& carrier)
      : staging_(std::move(staging)), call_(call) {
    carrier.prepare(staging_->carrier, staging_->call);
  }

  // The carrier takes its place in the order of calls when it is started, so that the input must be
  // there.
  bool is_ready() override {
    GpuDevice& gpu = *staging_->area->gpu;
    if (stage_ == Stage::fresh) {
      const OrderingDomain& domain = call_.request->domain;
      stream_ = domain.kind == OrderingDomain::Kind::host ? gpu.stream(false)
                                                          : static_cast<Stream>(domain.stream);
      staging_->copies.bring_in(stream_);
      staging_->event = gpu.mark(stream_);
      stage_ = Stage::coming;
    }
    if (stage_ == Stage::coming && gpu.has_happened(staging_->event)) {
      gpu.give_back(std::exchange(staging_->event, nullptr));
      stage_ = Stage::ready;
    }
    return stage_ != Stage::coming;
  }
  void start() override {
    staging_->call.sequence = call_.sequence;
    stage_ = Stage::carried;
    carrier().start();
  }
  bool step() override { return go_on(stage_ != Stage::carried || carrier().step()); }
  bool park(long nanoseconds) override {
    return go_on(stage_ != Stage::carried || carrier().park(nanoseconds));
  }
  bool can_park() const override { return stage_ == Stage::carried && carrier().can_park(); }
  Awaited awaited() const override { return carrier().awaited(); }
  bool peers_need_steps() const override { return carrier().peers_need_steps(); }

  bool is_enqueued() const override { return stage_ > Stage::carried; }
  bool can_let_wait() const override { return true; }
  void let_wait(void* stream) override {
    if (stage_ == Stage::leaving)
      staging_->area->gpu->wait_on(static_cast<Stream>(stream), staging_->event);
  }

  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    std::unique_ptr<AbandonedOperation> carriers;
    if (stage_ == Stage::carried) carriers = carrier().abandon(reason);
    if (carriers == nullptr && staging_->is_idle()) return nullptr;
    return std::make_unique<AbandonedStagedOperation>(std::move(staging_), std::move(carriers));
  }
  RecvStatus status() const override { return carrier().status(); }

 private:
  enum class Stage : unsigned char { fresh, coming, ready, carried, leaving, done };
  Operation& carrier() const { return *staging_->carrier.get(); }

  bool go_on(bool is_carried) {
    if (stage_ == Stage::carried && is_carried) {
      const bool is_recv = call_.request->type == OpType::recv;
      staging_->copies.bring_back(
          stream_, is_recv ? status().count : std::numeric_limits<std::size_t>::max());
      staging_->event = staging_->area->gpu->mark(stream_);
      stage_ = Stage::leaving;
    }
    if (stage_ == Stage::leaving && staging_->area->gpu->has_happened(staging_->event))
      stage_ = Stage::done;
    return stage_ == Stage::done;
  }

  std::unique_ptr<Staging> staging_;
  const Call& call_;
  Stream stream_ = nullptr;
  Stage stage_ = Stage::fresh;
};

}  // namespace

Verdict StagedAlgorithm::can_run(const Request& request) const {
  Verdict known = can_move_bytes(request);
  if (!known.ok) return known;
  const LocatedRequest on_host(request, MemoryKind::host);
  try {
    pick_(on_host.request);
    return Verdict::yes();
  } catch (const UnsupportedError& error) {
    return Verdict::no(error.problem());
  }
}

Reproducibility StagedAlgorithm::promises(const Request& request) const {
  const LocatedRequest on_host(request, MemoryKind::host);
  return pick_(on_host.request).promises(on_host.request);
}

Operation& StagedAlgorithm::prepare(OperationStorage& storage, const Call& call) {
  const Request& request = *call.request;
  if (request.domain.kind != OrderingDomain::Kind::host &&
      area_->gpu->is_capturing(static_cast<Stream>(request.domain.stream)))
    throw UnsupportedError("a CUDA graph cannot capture what is staged through host memory",
                           {.remedy = "leave it out of the capture"});
  auto staging = std::make_unique<Staging>(area_, call, call.peer == rank_);
  Algorithm& carrier = pick_(staging->copies.request());
  return storage.emplace<StagedOperation>(std::move(staging), call, carrier);
}

}  // namespace hymn
