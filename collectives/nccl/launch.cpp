#include "collectives/nccl/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "collectives/nccl/nccl_models.hpp"
#include "collectives/nccl/nccl_types.hpp"
#include "collectives/validate_view.hpp"
#include "gpu/nccl_calls.hpp"

namespace hymn {
namespace {

using nccl_api::Result;

using ElementBytes = std::array<std::byte, 8>;

template <class T>
ElementBytes bytes_of(T value) {
  ElementBytes bytes{};
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

/// The factor as one element, behind which nothing is read. It is a number that the type holds.
ElementBytes factor_as(DataType dtype, double factor) {
  switch (dtype) {
    case DataType::float16:
      return bytes_of(float16(static_cast<float>(factor)));
    case DataType::bfloat16:
      return bytes_of(bfloat16(static_cast<float>(factor)));
    case DataType::float32:
      return bytes_of(static_cast<float>(factor));
    case DataType::float64:
      return bytes_of(factor);
    case DataType::uint64:
      return bytes_of(static_cast<std::uint64_t>(factor));
    case DataType::int8:  // of smaller integers the low bytes
    case DataType::uint8:
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
      return bytes_of(static_cast<std::int64_t>(factor));
    case DataType::boolean:
    case DataType::int16:
    case DataType::uint16:
    case DataType::complex64:
    case DataType::complex128:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      break;
  }
  throw Error(ErrorKind::internal, fmt::format("NCCL has no factor of {}", to_string(dtype)));
}

/// The operation of a reduction; that of a premultiplied sum lives as long as this.
class NcclOp {
 public:
  NcclOp(const NcclPlace& place, const Request& request)
      : place_(place), is_made_(request.op.kind() == ReduceKind::premul_sum) {
    if (!is_made_) {
      op_ = nccl_op(request.op.kind());
      return;
    }
    const DataType dtype = request.inputs.dtype();
    ElementBytes factor = factor_as(dtype, request.op.factor());
    call(place.nccl, place.nccl.make_premul_sum, &op_, static_cast<void*>(factor.data()),
         nccl_type(dtype), nccl_api::factor_on_host, place.comm);
  }
  ~NcclOp() {
    if (is_made_) place_.nccl.destroy_op.pointer(op_, place_.comm);
  }
  NcclOp(const NcclOp&) = delete;
  NcclOp& operator=(const NcclOp&) = delete;
  nccl_api::Op op() const { return op_; }

 private:
  const NcclPlace& place_;
  bool is_made_;
  nccl_api::Op op_ = nccl_api::sum;
};

/// One request, and the calls for each type.
class Launch {
 public:
  Launch(const NcclPlace& place, const Request& request, int peer)
      : place_(place), nccl_(place.nccl), request_(request), peer_(peer) {}

  Result run() const {
    const OpType what = request_.type;
    if (what == OpType::all_reduce) return all_reduce();
    if (what == OpType::broadcast) return broadcast(out().data, out().data, out().bytes(), peer_);
    if (what == OpType::reduce) {
      const NcclOp op(place_, request_);
      return reduce(in(), is_root() ? out().data : nullptr, op, peer_);
    }
    if (what == OpType::all_gather) return all_gather();
    if (what == OpType::reduce_scatter) return reduce_scatter();
    if (what == OpType::gather) return gather();
    if (what == OpType::scatter) return scatter();
    if (what == OpType::all_to_all) return all_to_all();
    if (what == OpType::barrier) return barrier();
    if (what == OpType::send) return send(in(), peer_);
    if (what == OpType::recv) return recv(out(), peer_);
    throw Error(ErrorKind::internal, "NCCL is asked for something that it does not support");
  }

 private:
  const ConstBufferView& in() const { return request_.inputs.flat(); }
  const BufferView& out() const { return request_.outputs.flat(); }
  bool is_root() const { return place_.shape.rank == peer_; }
  nccl_api::DataType type() const { return nccl_type(request_.inputs.dtype()); }

  // --- Single calls

  Result broadcast(const void* from, void* to, std::size_t bytes, int root) const {
    return call(nccl_, nccl_.broadcast, from, to, bytes, nccl_api::uint8, root, place_.comm,
                place_.stream);
  }
  Result reduce(const ConstBufferView& from, void* to, const NcclOp& op, int root) const {
    return call(nccl_, nccl_.reduce, from.data, to, from.count, type(), op.op(), root, place_.comm,
                place_.stream);
  }
  Result send(const ConstBufferView& from, int to) const {
    return call(nccl_, nccl_.send, from.data, from.bytes(), nccl_api::uint8, to, place_.comm,
                place_.stream);
  }
  Result recv(const BufferView& to, int from) const {
    return call(nccl_, nccl_.recv, to.data, to.bytes(), nccl_api::uint8, from, place_.comm,
                place_.stream);
  }

  // --- Collectives

  Result all_reduce() const {
    const NcclOp op(place_, request_);
    return call(nccl_, nccl_.all_reduce, in().data, out().data, in().count, type(), op.op(),
                place_.comm, place_.stream);
  }

  // NCCL has none: nobody has the sum before all have given their part of it.
  Result barrier() const {
    constexpr std::size_t one_byte = 1;
    return call(nccl_, nccl_.all_reduce, static_cast<const void*>(place_.scratch), place_.scratch,
                one_byte, nccl_api::uint8, nccl_api::sum, place_.comm, place_.stream);
  }

  // Blocks of different sizes are a broadcast each, all of them as one operation.
  Result all_gather() const {
    if (request_.outputs.layout() == Layout::equal)
      return call(nccl_, nccl_.all_gather, in().data, out().data, in().bytes(), nccl_api::uint8,
                  place_.comm, place_.stream);
    return for_each_block(request_.outputs, [this](int rank, const BufferView& block) {
      const void* from = rank == place_.shape.rank ? in().data : block.data;
      broadcast(from, block.data, block.bytes(), rank);
    });
  }

  Result reduce_scatter() const {
    const NcclOp op(place_, request_);
    if (request_.inputs.layout() == Layout::equal)
      return call(nccl_, nccl_.reduce_scatter, in().data, out().data, out().count, type(), op.op(),
                  place_.comm, place_.stream);
    return for_each_block(request_.inputs, [&](int rank, const ConstBufferView& block) {
      reduce(block, rank == place_.shape.rank ? out().data : nullptr, op, rank);
    });
  }

  Result gather() const {
    NcclGroup group(nccl_);
    if (in().bytes() > 0) send(in(), peer_);
    if (is_root()) receive_blocks();
    return group.end();
  }

  Result scatter() const {
    NcclGroup group(nccl_);
    if (is_root()) send_blocks();
    if (out().bytes() > 0) recv(out(), peer_);
    return group.end();
  }

  Result all_to_all() const {
    NcclGroup group(nccl_);
    send_blocks();
    receive_blocks();
    return group.end();
  }

  void send_blocks() const {
    request_.inputs.for_each(place_.shape.size, [this](int rank, const ConstBufferView& block) {
      if (block.bytes() > 0) send(block, rank);
    });
  }
  void receive_blocks() const {
    request_.outputs.for_each(place_.shape.size, [this](int rank, const BufferView& block) {
      if (block.bytes() > 0) recv(block, rank);
    });
  }

  /// Calls visit(rank, block) for every block that is not empty, as one operation.
  template <class View, class Visit>
  Result for_each_block(const Blocks<View>& blocks, Visit visit) const {
    NcclGroup group(nccl_);
    blocks.for_each(place_.shape.size, [&visit](int rank, const View& block) {
      if (block.bytes() > 0) visit(rank, block);
    });
    return group.end();
  }

  const NcclPlace& place_;
  const nccl_api::Functions& nccl_;
  const Request& request_;
  int peer_;
};

}  // namespace

// NCCL reads what others have written by then. Of a reduce_scatter validate() lets the output be
// the input's own block, and nothing else of it: that is in place for NCCL, too.
void require_apart_for_nccl(const Request& request) {
  if (request.type != OpType::all_to_all) return;
  for (const ConstBufferView& in : request.inputs.views())
    for (const BufferView& out : request.outputs.views())
      if (overlap(in, ConstBufferView(out)))
        throw UnsupportedError(fmt::format("NCCL has no in-place {}", to_string(request.type)),
                               {.remedy = "give an output that is separate from the input"});
}

Verdict nccl_can_run(const Request& request) {
  if (!nccl_models::nccl.serves.contains(request.type))
    return Verdict::no(fmt::format("NCCL has no {}", to_string(request.type)));
  if (request.tag != 0) return Verdict::no("NCCL has no tags");
  if (request.type == OpType::recv && request.peer == any_source)
    return Verdict::no("NCCL cannot receive from any source");
  if (reduces(request.type)) {
    std::string reason = nccl_refusal(request.inputs.dtype(), request.op.kind());
    return reason.empty() ? Verdict::yes() : Verdict::no(std::move(reason));
  }
  return can_move_bytes(request);
}

bool launch_nccl(const NcclPlace& place, const Request& request, int peer) {
  return Launch(place, request, peer).run() == nccl_api::success;
}

bool launch_nccl_together(std::span<const NcclMessage> messages) {
  NcclGroup group(messages.front().place.nccl);
  for (const NcclMessage& message : messages)
    Launch(message.place, *message.request, message.peer).run();
  return group.end() == nccl_api::success;
}

}  // namespace hymn
