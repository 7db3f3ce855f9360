// Tensors as arguments and results of calls, with their gradients. Programs include
// hymn/torch_rpc.hpp.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "hymn/object_format.hpp"
#include "hymn/rpc_context.hpp"

namespace hymn::torch::detail {

using ::torch::autograd::Edge;

/// Where tensors come from that another worker has sent: their gradients go back there.
class ReceivedFrom final : public ::torch::autograd::Node {
 public:
  explicit ReceivedFrom(const rpc::detail::Packed& packed)
      : agent_(packed.agent),
        from_(packed.from),
        context_(packed.context),
        message_(packed.message) {}

  int from() const { return from_; }
  std::uint64_t message() const { return message_; }

  ::torch::autograd::variable_list apply(::torch::autograd::variable_list&& gradients) override;

 private:
  std::weak_ptr<rpc::detail::AgentState> agent_;
  int from_;
  std::uint64_t context_;
  std::uint64_t message_;
};

enum class TensorKind : std::uint8_t { undefined, dense, sparse };

/// The elements behind one another, from where they lie if they do so already. Views that conjugate
/// or negate what they show do not: that is done here.
inline rpc::Buffer elements_of(const at::Tensor& tensor) {
  auto kept =
      std::make_shared<at::Tensor>(tensor.detach().resolve_conj().resolve_neg().contiguous());
  const std::span bytes(static_cast<std::byte*>(kept->data_ptr()), kept->nbytes());
  return rpc::Buffer(bytes, std::move(kept));
}

inline at::Tensor tensor_from(const rpc::Buffer& buffer, const std::vector<std::int64_t>& sizes,
                              at::ScalarType type) {
  if (buffer.size() == 0) return at::empty(sizes, type);
  return at::from_blob(buffer.bytes().data(), sizes, [buffer](void*) {}, type);
}

inline void put_dense(ObjectWriter& out, const at::Tensor& tensor) {
  out.put(static_cast<std::int8_t>(tensor.scalar_type()), tensor.sizes().vec(),
          elements_of(tensor));
}

inline at::Tensor get_dense(ObjectReader& in) {
  std::int8_t type = 0;
  std::vector<std::int64_t> sizes;
  rpc::Buffer buffer;
  in.get(type, sizes, buffer);
  if (type < 0 || type >= static_cast<std::int8_t>(at::ScalarType::Undefined))
    in.fail("a tensor has an unknown type");
  // Counted so that what is damaged cannot overflow.
  const auto scalar = static_cast<at::ScalarType>(type);
  std::size_t left = buffer.size() / c10::elementSize(scalar);
  bool is_empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) in.fail("a tensor has negative sizes");
    is_empty = is_empty || size == 0;
  }
  for (const std::int64_t size : sizes) left = is_empty ? 0 : left / static_cast<std::size_t>(size);
  at::Tensor tensor;
  std::size_t elements = is_empty ? 0 : 1;
  if (!is_empty && left == 0) in.fail("a tensor has other sizes than elements");
  for (const std::int64_t size : sizes) elements *= static_cast<std::size_t>(size);
  if (elements * c10::elementSize(scalar) != buffer.size())
    in.fail("a tensor has other sizes than elements");
  return tensor_from(buffer, sizes, scalar);
}

/// Whether the tensor's gradient is wanted, and can be followed.
inline bool record_tensor(const at::Tensor& tensor, std::uint64_t& number) {
  rpc::detail::Packed* const packed = rpc::detail::PackScope::current();
  if (packed == nullptr || !at::GradMode::is_enabled() || !tensor.requires_grad()) return false;
  auto edge = std::make_shared<Edge>(::torch::autograd::impl::gradient_edge(tensor));
  return rpc::detail::record_value(*packed, std::move(edge), number);
}

/// Its place in the message that it came with.
inline void take_source(ObjectReader& in, at::Tensor& tensor, std::uint64_t number) {
  rpc::detail::Packed* const packed = rpc::detail::PackScope::current();
  if (packed == nullptr || packed->message == 0) in.fail("its gradient belongs to no message");
  if (!packed->source) packed->source = std::make_shared<ReceivedFrom>(*packed);
  const auto source = std::static_pointer_cast<ReceivedFrom>(packed->source);
  if (source->num_inputs() != number) in.fail("its gradient is in another place");
  ::torch::autograd::create_gradient_edge(tensor, source);
}

}  // namespace hymn::torch::detail

/// In the memory of the host. In a context (hymn/rpc_context.hpp) tensors that require gradients
/// get them from where they go. Outside of it, and for sparse ones, they are values alone.
template <>
struct hymn::ObjectFormat<at::Tensor> {
  static void write(ObjectWriter& out, const at::Tensor& tensor) {
    using torch::detail::TensorKind;
    if (!tensor.defined()) return out.put(TensorKind::undefined);
    if (!tensor.device().is_cpu())
      throw UnsupportedError("a tensor that is not in the memory of the host cannot be sent",
                             {.remedy = "call .cpu() first"});
    if (tensor.is_quantized() || tensor.is_mkldnn())
      throw UnsupportedError("a tensor that is quantized or laid out for mkldnn cannot be sent",
                             {.remedy = "call .dequantize() or .to_dense() first"});
    if (tensor.is_sparse()) {
      const at::Tensor whole = tensor.detach().coalesce();
      out.put(TensorKind::sparse, whole.sizes().vec());
      torch::detail::put_dense(out, whole.indices());
      torch::detail::put_dense(out, whole.values());
      return;
    }
    std::uint64_t number = 0;
    const bool is_recorded = torch::detail::record_tensor(tensor, number);
    out.put(TensorKind::dense);
    torch::detail::put_dense(out, tensor);
    out.put(is_recorded, number);
  }

  static void read(ObjectReader& in, at::Tensor& tensor) {
    using torch::detail::TensorKind;
    TensorKind kind{};
    in.get(kind);
    if (kind == TensorKind::undefined) {
      tensor = at::Tensor();
    } else if (kind == TensorKind::sparse) {
      std::vector<std::int64_t> sizes;
      in.get(sizes);
      const at::Tensor indices = torch::detail::get_dense(in);
      const at::Tensor values = torch::detail::get_dense(in);
      tensor = at::sparse_coo_tensor(indices, values, sizes)._coalesced_(true);
    } else if (kind == TensorKind::dense) {
      tensor = torch::detail::get_dense(in);
      bool is_recorded = false;
      std::uint64_t number = 0;
      in.get(is_recorded, number);
      if (is_recorded) torch::detail::take_source(in, tensor, number);
    } else {
      in.fail("a tensor is of an unknown kind");
    }
  }
};
