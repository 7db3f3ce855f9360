#include "recorder/call_facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "collectives/coalesced_calls.hpp"

namespace hymn {
namespace {

/// FNV-1a over 64-bit words.
class Hash {
 public:
  void add(std::uint64_t word) {
    for (int i = 0; i < 8; ++i) {
      value_ ^= (word >> (8 * i)) & 0xff;
      value_ *= 0x100000001b3;
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::string name_of_rank(int rank) { return rank == any_source ? "any" : std::to_string(rank); }

}  // namespace

CallFacts facts_of(const CallRecord& call) {
  const CallSide& own = all_have_outputs(call.type) ? call.output : call.input;
  // The side that tells how the blocks lie.
  const CallSide& blocks = has_input_blocks(call.type) ? call.input : call.output;
  CallFacts facts{.type = call.type, .dtype = own.dtype, .count = own.count};
  // Only the root has the list that it scatters or gathers to.
  const bool at_root =
      has_root(call.type) && has_blocks(call.type) && blocks.layout == Layout::none;
  facts.form = at_root ? Layout::list : blocks.layout;
  // The others give an output or none, as they like.
  if (!has_blocks(call.type) && !uses_outputs(call.type, /*is_root=*/false))
    facts.form = Layout::none;
  // Where both sides have blocks, or the root alone has them, counts may differ.
  const bool both = has_input_blocks(call.type) && has_output_blocks(call.type);
  if (call.coalesced) {
    facts.form = Layout::none;
    facts.coalesced = own.buffers;
    const CallSide& known = all_know_outputs(call.type) ? call.output : call.input;
    facts.count = counts_differ(call.type, call.given_blocks) ? 0 : known.count;
  } else if (facts.is_uneven()) {
    facts.count = has_root(call.type) || both ? 0 : blocks.count;
  }
  if (!call.coalesced && !facts.is_uneven()) {
    facts.order = (is_shaped_by_output(call.type) ? call.output : call.input).order();
    if (facts.order == 0 && has_one_shape(call.type)) facts.order = call.output.order();
  }
  // One rank's elements may be several of another's.
  if (facts.dtype == DataType::opaque) facts.count = 0;
  if (reduces(call.type)) facts.kind = call.kind;
  if (has_root(call.type)) facts.root = call.peer;
  return facts;
}

CallFacts facts_of(const Call& call) {
  const Request& request = *call.request;
  CallRecord record;
  record.type = request.type;
  record.kind = request.op.kind();
  record.peer = request.peer;
  record.input = side_of(request.inputs);
  record.output = side_of(request.outputs);
  record_whole(record, call);
  CallFacts facts = facts_of(record);
  if (record.coalesced && facts.count != 0) facts.cut = cut_of(counts_of_calls(call));
  return facts;
}

CallFacts facts_of(const Request& request) { return facts_of(Call{.request = &request}); }

bool fit(CallFacts one, CallFacts other) {
  if (one.cut == 0 || other.cut == 0) one.cut = other.cut = 0;
  return one == other;
}

std::uint64_t cut_of(std::span<const std::uint64_t> counts) {
  if (counts.empty()) return 0;
  Hash hash;
  for (const std::uint64_t count : counts) hash.add(count);
  return hash.value();
}

std::string tell_cut(std::span<const std::uint64_t> counts) {
  constexpr std::size_t most = 16;
  if (counts.empty()) return {};
  const bool all = counts.size() <= most;
  return fmt::format(": {}{}", fmt::join(counts.first(all ? counts.size() : most), ", "),
                     all ? "" : ", …");
}

std::uint64_t signature_of(const CallFacts& facts) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(facts.type));
  hash.add(static_cast<std::uint64_t>(facts.dtype));
  hash.add(facts.count);
  hash.add(static_cast<std::uint64_t>(facts.kind));
  hash.add(static_cast<std::uint64_t>(facts.root) + 1);
  hash.add(static_cast<std::uint64_t>(facts.form));
  if (facts.coalesced != 0) hash.add(facts.coalesced);
  if (facts.cut != 0) hash.add(facts.cut);
  if (facts.order != 0) hash.add(facts.order);
  return hash.value();
}

std::uint64_t signature_of(const CallRecord& call) { return signature_of(facts_of(call)); }

std::string describe(const CallFacts& facts) {
  std::string words(to_string(facts.type));
  if (facts.type == OpType::barrier)
    return facts.coalesced == 0 ? words : fmt::format("{}, {} coalesced", words, facts.coalesced);
  const bool counts_differ = facts.count == 0 && (facts.is_uneven() || facts.coalesced != 0 ||
                                                  facts.dtype == DataType::opaque);
  words += counts_differ ? fmt::format(" of {}", to_string(facts.dtype))
                         : fmt::format(" of {} {}", facts.count, to_string(facts.dtype));
  if (reduces(facts.type)) words += fmt::format(" with {}", to_string(facts.kind));
  const bool to_root = traits_of(facts.type).root == RootRole::takes;
  if (has_root(facts.type))
    words += fmt::format(" {} root {}", to_root ? "to" : "from", facts.root);
  if (facts.form == Layout::counted) words += " in blocks of given counts";
  if (facts.form == Layout::list) words += " in a list of buffers";
  if (facts.coalesced != 0) words += fmt::format(", {} buffers coalesced", facts.coalesced);
  if (facts.order != 0)
    words += fmt::format(" whose dimensions lie in memory as {}", tell_order(facts.order));
  return words;
}

std::string profiling_name(OpType type, int rank, int peer) {
  const std::string_view name = to_string(type);
  if (type == OpType::send) return fmt::format("hymn:{} {}->{}", name, rank, name_of_rank(peer));
  if (awaits_message(type)) return fmt::format("hymn:{} {}<-{}", name, rank, name_of_rank(peer));
  return fmt::format("hymn:{}", name);
}

std::string profiling_name(const CallRecord& call, int rank) {
  return call.coalesced ? coalesced_name(call.type) : profiling_name(call.type, rank, call.peer);
}

// As the functions over flat buffers are called in torch.distributed.
std::string coalesced_name(OpType type) {
  const std::string_view form = type == OpType::all_gather       ? "_into_tensor"
                                : type == OpType::reduce_scatter ? "_tensor"
                                                                 : "";
  return fmt::format("hymn:{}{}_coalesced", to_string(type), form);
}

std::size_t payload_of(const Request& request) {
  const bool gets = traits_of(request.type).input == SideForm::none ||
                    !uses_inputs(request.type, /*is_root=*/false);
  return gets ? request.outputs.total_count() * request.outputs.element_bytes()
              : request.inputs.total_count() * request.inputs.element_bytes();
}

}  // namespace hymn
