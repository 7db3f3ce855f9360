// Collectives in which the root has a block of each rank.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "preload/blocks.hpp"

namespace hymn::preload {
namespace {

using BlockSizes = std::vector<std::size_t>;

Elements elements_of(Attempt& call, const void* data, int count, MPI_Datatype type) {
  return {data, static_cast<std::size_t>(count), type, call.session().types().find(type)};
}

/// `from`: null in place; `to`: null but at the root; no sizes: those of all are alike.
void gather(Attempt& call, ProcessGroup& group, const Elements* from, const Blocks* to,
            const BlockSizes& sizes, int root) {
  Scratch scratch;
  const auto send = [&](ConstBufferView own, BufferView all) {
    if (sizes.empty())
      group.gather(own, all, call.world_rank(root));
    else
      group.gather(own, all, sizes, call.world_rank(root));
  };
  if (to == nullptr)
    return send(view_of_bytes(packed(*from, scratch), from->bytes()), BufferView());
  const BlocksLanding landing(*to, scratch);
  const std::byte* const own = own_apart(from, *to, call.own_place(), landing, scratch);
  const std::size_t bytes = from == nullptr ? to->bytes_of(call.own_place()) : from->bytes();
  send(view_of_bytes(own, bytes), landing.view());
  landing.store();
}

/// `from`: null but at the root; `to`: memory for what goes nowhere, in place.
void scatter(Attempt& call, ProcessGroup& group, const Blocks* from, const Elements& to,
             const BlockSizes& sizes, int root, Scratch& scratch) {
  Landing landing(to, scratch);
  const BufferView own = view_of_bytes(landing.data(), to.bytes());
  ConstBufferView all;
  if (from != nullptr)
    all = view_of_bytes(all_apart(*from, landing.data(), to.bytes(), scratch), from->bytes());
  if (sizes.empty())
    group.scatter(all, own, call.world_rank(root));
  else
    group.scatter(all, sizes, own, call.world_rank(root));
  landing.store();
}

/// The root alone knows how much goes to whom, and tells the others; null: this is not the root.
/// Nothing: what the root has been given is not sound.
BlockSizes tell_sizes(Attempt& call, ProcessGroup& group, const Blocks* of_root, int root) {
  std::vector<std::uint64_t> told(static_cast<std::size_t>(call.size()) + 1);
  if (of_root != nullptr && of_root->is_sound()) {
    told[0] = 1;
    std::ranges::copy(of_root->sizes(), told.begin() + 1);
  }
  group.broadcast(BufferView(told.data(), told.size() * sizeof(std::uint64_t), DataType::uint8),
                  call.world_rank(root));
  return told[0] == 0 ? BlockSizes() : BlockSizes(told.begin() + 1, told.end());
}

/// Has the root tell the sizes, then calls `move(group, sizes)` where all go on.
template <class Move>
Outcome run_with_sizes(Attempt& call, const Blocks* of_root, int root, Move move) {
  return call.run([&](ProcessGroup& group) {
    const BlockSizes sizes = tell_sizes(call, group, of_root, root);
    if (sizes.empty()) return Reason::bad_arguments;
    const Reason reason =
        call.judge_told(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
    if (reason == Reason::carried) move(group, sizes);
    return reason;
  });
}

}  // namespace

Outcome attempt(Tag<Call::Gather>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool is_root = call.rank() == root;
  if (!call.has(root) || (is_root ? out_count : in_count) < 0 ||
      (is_root ? out : in) == MPI_IN_PLACE)
    return Attempt::left(Reason::bad_arguments);
  const bool in_place = is_root && in == MPI_IN_PLACE;
  const Blocks to = Blocks::equal(call, out, is_root ? out_count : 0, is_root ? out_type : in_type);
  const Elements from = in_place ? Elements() : elements_of(call, in, in_count, in_type);
  if ((is_root && !to.is_sound()) || (!in_place && !from.is_sound()))
    return Attempt::left(Reason::bad_arguments);
  const std::size_t bytes = is_root ? to.each_bytes() : from.bytes();
  if (const Reason reason = call.judge(bytes, call.size()); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    gather(call, group, in_place ? nullptr : &from, is_root ? &to : nullptr, {}, root);
  });
}

Outcome attempt(Tag<Call::Gatherv>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, const int out_counts[], const int places[],
                MPI_Datatype out_type, int root, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool is_root = call.rank() == root;
  const bool in_place = is_root && in == MPI_IN_PLACE;
  if (!call.has(root) || (!is_root && in == MPI_IN_PLACE))
    return Attempt::left(Reason::bad_arguments);
  const Elements from =
      in_place ? Elements() : elements_of(call, in, std::max(in_count, 0), in_type);
  if (!in_place && (in_count < 0 || !from.is_sound())) return Attempt::left(Reason::bad_arguments);
  if (is_root && (out_counts == nullptr || places == nullptr || out == MPI_IN_PLACE))
    return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(0); reason != Reason::carried) return Attempt::left(reason);
  std::optional<Blocks> to;
  if (is_root) to = Blocks::uneven(call, out, out_counts, places, out_type);
  const Blocks* const at_root = to ? &*to : nullptr;
  return run_with_sizes(call, at_root, root, [&](ProcessGroup& group, const BlockSizes& sizes) {
    gather(call, group, in_place ? nullptr : &from, at_root, sizes, root);
  });
}

Outcome attempt(Tag<Call::Scatter>, Attempt& call, const void* in, int in_count,
                MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type, int root,
                MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool is_root = call.rank() == root;
  if (!call.has(root) || (is_root ? in_count : out_count) < 0 ||
      (is_root ? in : out) == MPI_IN_PLACE)
    return Attempt::left(Reason::bad_arguments);
  const bool in_place = is_root && out == MPI_IN_PLACE;
  const Blocks from = Blocks::equal(call, in, is_root ? in_count : 0, is_root ? in_type : out_type);
  const Elements to = in_place ? Elements() : elements_of(call, out, out_count, out_type);
  if ((is_root && !from.is_sound()) || (!in_place && !to.is_sound()))
    return Attempt::left(Reason::bad_arguments);
  const std::size_t bytes = is_root ? from.each_bytes() : to.bytes();
  if (const Reason reason = call.judge(bytes, call.size()); reason != Reason::carried)
    return Attempt::left(reason);
  return call.run([&](ProcessGroup& group) {
    Scratch scratch;
    scatter(call, group, is_root ? &from : nullptr, in_place ? memory_for(bytes, scratch) : to, {},
            root, scratch);
  });
}

Outcome attempt(Tag<Call::Scatterv>, Attempt& call, const void* in, const int in_counts[],
                const int places[], MPI_Datatype in_type, void* out, int out_count,
                MPI_Datatype out_type, int root, MPI_Comm comm) {
  if (!call.find(comm)) return call.left();
  const bool is_root = call.rank() == root;
  const bool in_place = is_root && out == MPI_IN_PLACE;
  if (!call.has(root) || (!is_root && out == MPI_IN_PLACE))
    return Attempt::left(Reason::bad_arguments);
  const Elements to =
      in_place ? Elements() : elements_of(call, out, std::max(out_count, 0), out_type);
  if (!in_place && (out_count < 0 || !to.is_sound())) return Attempt::left(Reason::bad_arguments);
  if (is_root && (in_counts == nullptr || places == nullptr || in == MPI_IN_PLACE))
    return Attempt::left(Reason::bad_arguments);
  if (const Reason reason = call.judge(0); reason != Reason::carried) return Attempt::left(reason);
  std::optional<Blocks> from;
  if (is_root) from = Blocks::uneven(call, in, in_counts, places, in_type);
  const Blocks* const at_root = from ? &*from : nullptr;
  return run_with_sizes(call, at_root, root, [&](ProcessGroup& group, const BlockSizes& sizes) {
    Scratch scratch;
    const Elements own = in_place ? memory_for(sizes[call.own_place()], scratch) : to;
    scatter(call, group, at_root, own, sizes, root, scratch);
  });
}

}  // namespace hymn::preload
