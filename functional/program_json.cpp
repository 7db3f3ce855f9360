// Programs as JSON: docs/functional.md tells the format.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "functional/fail.hpp"
#include "functional/program.hpp"

namespace hymn {
namespace {

using functional::Collective;
using functional::detail::refuse;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int format_version = 1;

template <class Enum, std::size_t Count>
Enum named(const std::array<Enum, Count>& all, const std::string& name, const std::string& what) {
  for (const Enum each : all)
    if (traits_of(each).name == name) return each;
  refuse("Program::from_json", "there is no " + what + " '" + name + "'");
}

// --- Out.

void write_reduction(ordered_json& out, const ReduceOp& reduction) {
  out["reduction"] = to_string(reduction.kind());
  if (reduction.kind() == ReduceKind::premul_sum) out["factor"] = reduction.factor();
}

void write_collective(ordered_json& out, const Collective& collective) {
  const functional::OperationTraits& traits = traits_of(collective.operation);
  out["operation"] = traits.name;
  if (reduces(traits.type)) write_reduction(out, collective.reduction);
  if (traits.has_dimension) out["dimensions"] = collective.dimensions;
  if (collective.operation == functional::Operation::broadcast) out["root"] = collective.root;
  if (collective.input_splits.has_value()) out["input_splits"] = *collective.input_splits;
  if (collective.output_splits.has_value()) out["output_splits"] = *collective.output_splits;
  if (collective.operation == functional::Operation::permute_tensor)
    out["destinations"] = collective.destinations;
}

constexpr std::array layouts = {Layout::none, Layout::whole, Layout::equal, Layout::counted,
                                Layout::list};

constexpr std::string_view name_of_layout(Layout layout) {
  switch (layout) {
    case Layout::none:
      return "none";
    case Layout::whole:
      return "whole";
    case Layout::equal:
      return "equal";
    case Layout::counted:
      return "counted";
    case Layout::list:
      return "list";
  }
  return {};
}

void write_call(ordered_json& out, const ProgramCall& call) {
  out["operation"] = to_string(call.type);
  if (reduces(call.type)) write_reduction(out, call.reduction);
  if (call.peer != -1) out["peer"] = call.peer;
  if (call.tag != 0) out["tag"] = call.tag;
  out["input_layout"] = name_of_layout(call.input);
  out["output_layout"] = name_of_layout(call.output);
  if (call.input == Layout::counted) out["input_counts"] = call.input_counts;
  if (call.output == Layout::counted) out["output_counts"] = call.output_counts;
  if (call.following != 0) out["following"] = call.following;
}

ordered_json json_of(const ProgramNode& node) {
  ordered_json out{{"kind", traits_of(node.kind).name}};
  switch (node.kind) {
    case NodeKind::collective:
      write_collective(out, node.collective);
      out["group"] = node.group;
      break;
    case NodeKind::call:
      write_call(out, node.call);
      out["group"] = node.group;
      break;
    case NodeKind::view:
      out["strides"] = node.strides;
      out["offset"] = node.offset;
      break;
    case NodeKind::step:
      out["name"] = node.step;
      out["number"] = node.step_number;
      break;
    case NodeKind::wait:
      if (!node.calls.empty()) out["calls"] = node.calls;
      break;
    case NodeKind::copy:
      break;
  }
  out["inputs"] = node.inputs;
  if (node.kind != NodeKind::wait) out["outputs"] = node.outputs;
  if (node.is_backward) out["backward"] = true;
  return out;
}

// --- In.

ReduceOp reduction_from(const json& in) {
  const auto kind = named(all_reduce_kinds, in.at("reduction").get<std::string>(), "reduction");
  if (kind == ReduceKind::custom || kind == ReduceKind::opaque)
    refuse("Program::from_json", "a reduction of a program's own cannot be data");
  return kind == ReduceKind::premul_sum ? ReduceOp::premul_sum(in.at("factor").get<double>())
                                        : ReduceOp::of(kind);
}

Layout layout_from(const json& in, const char* key) {
  const auto name = in.at(key).get<std::string>();
  for (const Layout layout : layouts)
    if (name_of_layout(layout) == name) return layout;
  refuse("Program::from_json", "there is no layout '" + name + "'");
}

ProgramCall call_from(const json& in) {
  using Counts = std::vector<std::size_t>;
  ProgramCall call;
  call.type = named(all_op_types, in.at("operation").get<std::string>(), "operation");
  if (reduces(call.type)) call.reduction = reduction_from(in);
  call.peer = in.value("peer", -1);
  call.tag = in.value("tag", 0);
  call.input = layout_from(in, "input_layout");
  call.output = layout_from(in, "output_layout");
  call.input_counts = in.value("input_counts", Counts());
  call.output_counts = in.value("output_counts", Counts());
  call.following = in.value("following", std::size_t{0});
  return call;
}

Collective collective_from(const json& in) {
  Collective collective;
  collective.operation =
      named(functional::all_operations, in.at("operation").get<std::string>(), "operation");
  if (reduces(traits_of(collective.operation).type)) collective.reduction = reduction_from(in);
  using Sizes = std::vector<std::int64_t>;
  collective.dimensions = in.value("dimensions", Sizes());
  collective.root = in.value("root", -1);
  if (in.contains("input_splits")) collective.input_splits = in["input_splits"].get<Sizes>();
  if (in.contains("output_splits")) collective.output_splits = in["output_splits"].get<Sizes>();
  collective.destinations = in.value("destinations", std::vector<int>());
  return collective;
}

ProgramNode node_from(const json& in) {
  ProgramNode node;
  node.kind = named(hymn::detail::all_described<NodeKind>, in.at("kind").get<std::string>(),
                    "kind of node");
  node.inputs = in.at("inputs").get<std::vector<std::size_t>>();
  node.outputs = in.value("outputs", std::vector<std::size_t>());
  node.is_backward = in.value("backward", false);
  switch (node.kind) {
    case NodeKind::collective:
      node.collective = collective_from(in);
      node.group = in.at("group").get<std::size_t>();
      break;
    case NodeKind::call:
      node.call = call_from(in);
      node.group = in.at("group").get<std::size_t>();
      break;
    case NodeKind::view:
      node.strides = in.at("strides").get<Shape>();
      node.offset = in.at("offset").get<std::int64_t>();
      break;
    case NodeKind::step:
      node.step = in.at("name").get<std::string>();
      node.step_number = in.at("number").get<std::size_t>();
      break;
    case NodeKind::wait:
      node.calls = in.value("calls", std::vector<std::size_t>());
      break;
    case NodeKind::copy:
      break;
  }
  return node;
}

Program program_from(const json& in) {
  if (in.at("hymn_program").get<int>() != format_version)
    refuse("Program::from_json", "it is of another version");
  Program program;
  program.rank = in.at("rank").get<int>();
  for (const json& group : in.at("groups"))
    program.groups.push_back(
        {group.at("tag").get<std::string>(), group.at("ranks").get<std::vector<int>>()});
  for (const json& value : in.at("values"))
    program.values.push_back(
        {value.at("shape").get<Shape>(),
         named(all_data_types, value.at("dtype").get<std::string>(), "dtype")});
  program.inputs = in.at("inputs").get<std::vector<std::size_t>>();
  program.outputs = in.at("outputs").get<std::vector<std::size_t>>();
  for (const json& node : in.at("nodes")) program.nodes.push_back(node_from(node));
  return program;
}

}  // namespace

std::string Program::to_json() const {
  ordered_json out{{"hymn_program", format_version}, {"rank", rank}};
  out["groups"] = ordered_json::array();
  for (const ProgramGroup& group : groups)
    out["groups"].push_back({{"tag", group.tag}, {"ranks", group.ranks}});
  out["values"] = ordered_json::array();
  for (const ArraySpec& value : values)
    out["values"].push_back({{"shape", value.shape}, {"dtype", to_string(value.dtype)}});
  out["inputs"] = inputs;
  out["outputs"] = outputs;
  out["nodes"] = ordered_json::array();
  for (const ProgramNode& node : nodes) out["nodes"].push_back(json_of(node));
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Program Program::from_json(std::string_view text) {
  Program program;
  try {
    program = program_from(json::parse(text));
  } catch (const json::exception& error) {
    refuse("Program::from_json", error.what());
  }
  functional::detail::require_sound(program);
  return program;
}

}  // namespace hymn
