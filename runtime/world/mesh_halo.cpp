// Neighbours in a mesh, and what they exchange.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "gpu/memory_query.hpp"
#include "hymn/mesh.hpp"
#include "runtime/group/work_starter.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn {
namespace {

/// With so few messages two ranks that are neighbours on both sides need no tags: what is sent to
/// the previous rank goes first, and what comes from the next one is received first.
void add_operations(std::vector<P2POp>& operations, const Halo& halo, std::optional<int> previous,
                    std::optional<int> next) {
  if (previous) operations.push_back(P2POp::send(halo.to_previous, *previous));
  if (next) operations.push_back(P2POp::send(halo.to_next, *next));
  if (next) operations.push_back(P2POp::recv(halo.from_next, *next));
  if (previous) operations.push_back(P2POp::recv(halo.from_previous, *previous));
}

std::vector<P2POp> operations_of(const Mesh& mesh, std::span<const Halo> halos) {
  std::vector<P2POp> operations;
  for (const Halo& halo : halos)
    add_operations(operations, halo, mesh.neighbour(halo.dimension, -1, halo.periodic),
                   mesh.neighbour(halo.dimension, 1, halo.periodic));
  return operations;
}

ConstBufferView view_of(const P2POp& operation) {
  const Request& request = operation.request;
  return request.type == OpType::send ? request.inputs.flat()
                                      : ConstBufferView(request.outputs.flat());
}

bool is_empty(const P2POp& operation) { return view_of(operation).bytes() == 0; }

bool is_on_gpu(const ConstBufferView& view, MemoryQuery* memory) {
  if (view.bytes() == 0 || view.memory == MemoryKind::device)
    return view.memory == MemoryKind::device;
  return memory != nullptr && memory->at(view.data).kind == MemoryKind::device;
}

bool are_on_gpu(std::span<const P2POp> operations, MemoryQuery* memory) {
  return std::ranges::any_of(
      operations, [&](const P2POp& operation) { return is_on_gpu(view_of(operation), memory); });
}

/// An empty face goes the way that the others take: where none of its own bytes says so, the
/// neighbour would wait for it there.
void move_empty_to_gpu(std::vector<P2POp>& operations) {
  for (P2POp& operation : operations) {
    if (!is_empty(operation)) continue;
    Request& request = operation.request;
    ConstBufferView in = request.inputs.flat();
    BufferView out = request.outputs.flat();
    in.memory = out.memory = MemoryKind::device;
    if (request.type == OpType::send)
      request.inputs = InputBlocks::whole(in);
    else
      request.outputs = OutputBlocks::whole(out);
  }
}

Work start_halos(const Mesh& mesh, std::span<const Halo> halos, const CallOptions& options,
                 const void* site) {
  std::vector<P2POp> operations = operations_of(mesh, halos);
  const ProcessGroup group = mesh.halo_group();
  detail::GroupState& state = detail::need(group);
  if (std::ranges::any_of(operations, is_empty) &&
      are_on_gpu(operations, state.world().settings.memory))
    move_empty_to_gpu(operations);
  return Work(
      detail::WorkStarter(state, options, site).start_batch(operations, {.is_joint = true}));
}

}  // namespace

std::optional<int> Mesh::neighbour(std::size_t dimension, int distance, bool periodic) const {
  require_dimension(dimension);
  require_place();
  const auto size = static_cast<std::int64_t>(shape_[dimension]);
  std::int64_t at = std::int64_t{place_[dimension]} + distance;
  if (periodic) at = (at % size + size) % size;
  if (at < 0 || at >= size) return std::nullopt;
  std::vector<int> place = place_;
  place[dimension] = static_cast<int>(at);
  std::size_t index = 0;
  for (std::size_t d = 0; d < shape_.size(); ++d)
    index = index * shape_[d] + static_cast<std::size_t>(place[d]);
  return ranks_[index];
}

ProcessGroup Mesh::halo_group() const {
  require_place();
  const std::string tag = fmt::format("{}:halo:{}", root_, fmt::join(dimensions_, ","));
  return world_->groups().find_or_create(tag, ranks_, ranks_.size(), {});
}

void Mesh::exchange_halos(std::span<const Halo> halos, const CallOptions& options) const {
  Work work = start_halos(*this, halos, options, __builtin_return_address(0));
  if (options.stream == nullptr) work.wait();
}

Work Mesh::exchange_halos_async(std::span<const Halo> halos, const CallOptions& options) const {
  return start_halos(*this, halos, options, __builtin_return_address(0));
}

}  // namespace hymn
