#include "recorder/flight_dump_entry.hpp"

#include <fmt/format.h>

#include <array>

#include "collectives/algorithm_model.hpp"
#include "recorder/call_facts.hpp"
#include "recorder/named_sites.hpp"
#include "recorder/outside_record.hpp"

namespace hymn {
namespace {

std::string_view to_string(CallState state) {
  constexpr std::array<std::string_view, 4> names = {"scheduled", "started", "completed", "failed"};
  return names[static_cast<std::size_t>(state) % names.size()];
}

DumpJson dimensions(const CallSide& side, std::uint64_t count) {
  DumpJson sizes = DumpJson::array();
  std::uint64_t others = 1;
  for (std::size_t i = 0; i + 1 < side.dimensions; ++i) others *= side.shape[i];
  // What the shape does not explain is told as what it is.
  if (side.dimensions < 2 || others == 0 || count % others != 0) {
    sizes.push_back(count);
    return sizes;
  }
  for (std::size_t i = 0; i + 1 < side.dimensions; ++i) sizes.push_back(side.shape[i]);
  sizes.push_back(count / others);
  return sizes;
}

/// Of each buffer; null: of all together, for no more is known.
DumpJson sizes_json(const CallSide& side, const std::vector<std::uint64_t>& counts,
                    const std::vector<CallShapes::Shape>& shapes) {
  DumpJson sizes = DumpJson::array();
  if (side.layout == Layout::none || side.buffers == 0) return sizes;
  if (shapes.size() == side.buffers) {
    for (const CallShapes::Shape& shape : shapes) sizes.push_back(shape);
  } else if (side.layout != Layout::list) {
    sizes.push_back(dimensions(side, side.count));
  } else if (side.even && side.counts_all() && side.count % side.buffers == 0) {
    for (unsigned i = 0; i < side.buffers; ++i)
      sizes.push_back(dimensions(side, side.count / side.buffers));
  } else if (counts.size() == side.buffers) {
    for (const std::uint64_t count : counts) sizes.push_back(DumpJson::array({count}));
  } else {
    sizes.push_back(DumpJson::array({side.count}));
  }
  return sizes;
}

void add_side(DumpJson& entry, const std::string& name, const CallSide& side, DumpJson sizes) {
  entry[name + "_dtypes"] = DumpJson(sizes.size(), std::string(to_string(side.dtype)));
  entry[name + "_sizes"] = std::move(sizes);
}

DumpJson frame_json(const CallFrame& frame) {
  DumpJson told = {{"address", fmt::format("{:#x}", frame.address)}};
  if (!frame.name.empty()) told["name"] = frame.name;
  if (!frame.file.empty()) {
    told["filename"] = frame.file;
    told["line"] = frame.line;
  } else if (!frame.module.empty()) {
    told["module"] = frame.module;
    told["offset"] = fmt::format("{:#x}", frame.offset);
  }
  return told;
}

}  // namespace

DumpJson timeout_ms(std::int64_t timeout_ns) {
  constexpr std::int64_t ns_per_ms = 1'000'000;
  if (timeout_ns == CallRecord::no_timeout) return nullptr;
  if (timeout_ns % ns_per_ms == 0) return timeout_ns / ns_per_ms;
  return static_cast<double>(timeout_ns) / ns_per_ms;
}

DumpJson EntryWriter::write(const CallRecord& call, const EntryDetails& details,
                            const std::string& description) const {
  const bool p2p = !is_collective(call.type);
  DumpJson entry = {
      {"record_id", call.record_id},
      {"pg_id", call.group_uid},
      {"process_group", {std::to_string(call.group_uid), description}},
      {"profiling_name", profiling_name(call, view.header().rank)},
      {"op", std::string(hymn::to_string(call.type))},
  };
  if (reduces(call.type)) entry["reduce_op"] = std::string(hymn::to_string(call.kind));
  if (has_root(call.type)) entry["root"] = call.peer;
  if (p2p) entry["peer"] = call.peer;
  if (has_tag(call.type) && tag_of(call) != every_tag) entry["tag"] = tag_of(call);
  entry["is_p2p"] = p2p;
  entry["collective_seq_id"] = p2p ? 0 : call.sequence;
  entry["p2p_seq_id"] = p2p ? call.sequence : 0;
  entry["op_id"] = call.op_id;
  DumpJson inputs = sizes_json(call.input, details.counts.input, details.shapes.input);
  DumpJson outputs = sizes_json(call.output, details.counts.output, details.shapes.output);
  // A message has one buffer, which is shown on both sides.
  if (call.type == OpType::recv) inputs = outputs;
  if (call.type == OpType::send) outputs = inputs;
  add_side(entry, "input", call.type == OpType::recv ? call.output : call.input, std::move(inputs));
  add_side(entry, "output", call.type == OpType::send ? call.input : call.output,
           std::move(outputs));
  if (!p2p) entry["signature"] = fmt::format("{:016x}", signature_of(call));
  entry["state"] = std::string(to_string(call.state));
  const auto time = [&](std::uint64_t stamp) {
    return stamp == 0 ? DumpJson(nullptr) : DumpJson(clock.wall_ns(stamp));
  };
  entry["time_created_ns"] = time(call.created);
  entry["time_discovered_started_ns"] = time(call.started);
  entry["time_discovered_completed_ns"] = time(call.completed);
  if (call.started != 0 && call.completed != 0)
    entry["duration_ms"] =
        static_cast<double>(clock.duration_ns(call.started, call.completed)) / 1e6;
  entry["timeout_ms"] = timeout_ms(call.timeout_ns);
  entry["retired"] = call.retired;
  if (call.state != CallState::completed) entry["waited_for"] = call.waited_for;
  if (call.undriven) entry["undriven"] = true;
  if (call.on_gpu) entry["on_gpu"] = true;
  if (call.coalesced) entry["coalesced"] = true;
  if (call.shadowed) entry["shadowed"] = true;
  const RecorderView::Method method = view.method(call.method);
  if (!method.name.empty()) {
    entry["path"] = method.path;
    entry["algorithm"] = std::string(algorithm_name(call.type, method.name));
  }
  DumpJson places = DumpJson::array();
  const auto add = [&](std::uint64_t address) {
    if (!symbols && !is_named_site(address))
      places.push_back(frame_json({address, {}, {}, 0, {}, 0}));
    else
      for (const CallFrame& frame : frames_at(address, frames)) places.push_back(frame_json(frame));
  };
  if (details.callers.empty() && call.site != 0) add(call.site);
  for (const std::uint64_t address : details.callers) add(address);
  entry["frames"] = std::move(places);
  return entry;
}

}  // namespace hymn
