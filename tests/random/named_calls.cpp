#include "tests/random/named_calls.hpp"

namespace hymn::test {
namespace {

bool is_in_place(const Request& request) {
  return request.inputs.flat().data == request.outputs.flat().data;
}

bool run_gather(ProcessGroup& group, const Request& request) {
  const ConstBufferView in = request.inputs.flat();
  const OutputBlocks& out = request.outputs;
  switch (out.layout()) {
    case Layout::equal:
      group.gather(in, out.flat(), request.peer);
      return true;
    case Layout::counted:
      group.gather(in, out.flat(), out.counts(), request.peer);
      return true;
    case Layout::list:
    case Layout::none:
      group.gather(in, out.views(), request.peer);
      return true;
    case Layout::whole:
      break;
  }
  return false;
}

bool run_scatter(ProcessGroup& group, const Request& request) {
  const InputBlocks& in = request.inputs;
  const BufferView out = request.outputs.flat();
  switch (in.layout()) {
    case Layout::equal:
      group.scatter(in.flat(), out, request.peer);
      return true;
    case Layout::counted:
      group.scatter(in.flat(), in.counts(), out, request.peer);
      return true;
    case Layout::list:
    case Layout::none:
      group.scatter(in.views(), out, request.peer);
      return true;
    case Layout::whole:
      break;
  }
  return false;
}

bool run_all_gather(ProcessGroup& group, const Request& request) {
  const ConstBufferView in = request.inputs.flat();
  const OutputBlocks& out = request.outputs;
  switch (out.layout()) {
    case Layout::equal:
      group.all_gather(in, out.flat());
      return true;
    case Layout::counted:
      group.all_gather(in, out.flat(), out.counts());
      return true;
    case Layout::list:
      group.all_gather(in, out.views());
      return true;
    case Layout::none:
    case Layout::whole:
      break;
  }
  return false;
}

bool run_reduce_scatter(ProcessGroup& group, const Request& request) {
  const InputBlocks& in = request.inputs;
  const BufferView out = request.outputs.flat();
  switch (in.layout()) {
    case Layout::equal:
      group.reduce_scatter(in.flat(), out, request.op);
      return true;
    case Layout::counted:
      group.reduce_scatter(in.flat(), in.counts(), out, request.op);
      return true;
    case Layout::list:
      group.reduce_scatter(in.views(), out, request.op);
      return true;
    case Layout::none:
    case Layout::whole:
      break;
  }
  return false;
}

bool run_all_to_all(ProcessGroup& group, const Request& request) {
  const InputBlocks& in = request.inputs;
  const OutputBlocks& out = request.outputs;
  switch (in.layout()) {
    case Layout::equal:
      group.all_to_all(in.flat(), out.flat());
      return true;
    case Layout::counted:
      group.all_to_all(in.flat(), in.counts(), out.flat(), out.counts());
      return true;
    case Layout::list:
      group.all_to_all(in.views(), out.views());
      return true;
    case Layout::none:
    case Layout::whole:
      break;
  }
  return false;
}

}  // namespace

bool run_by_name(ProcessGroup& group, const Request& request) {
  const ConstBufferView in = request.inputs.flat();
  const BufferView out = request.outputs.flat();
  switch (request.type) {
    case OpType::all_reduce:
      if (is_in_place(request))
        group.all_reduce(out, request.op);
      else
        group.all_reduce(in, out, request.op);
      return true;
    case OpType::broadcast:
      group.broadcast(out, request.peer);
      return true;
    case OpType::reduce:
      if (is_in_place(request))
        group.reduce(out, request.peer, request.op);
      else
        group.reduce(in, out, request.peer, request.op);
      return true;
    case OpType::gather:
      return run_gather(group, request);
    case OpType::scatter:
      return run_scatter(group, request);
    case OpType::all_gather:
      return run_all_gather(group, request);
    case OpType::reduce_scatter:
      return run_reduce_scatter(group, request);
    case OpType::scan:
      if (is_in_place(request))
        group.scan(out, request.op);
      else
        group.scan(in, out, request.op);
      return true;
    case OpType::exscan:
      if (is_in_place(request))
        group.exscan(out, request.op);
      else
        group.exscan(in, out, request.op);
      return true;
    case OpType::all_to_all:
      return run_all_to_all(group, request);
    case OpType::barrier:
      group.barrier();
      return true;
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      break;
  }
  return false;
}

Work start_by_name(ProcessGroup& group, const Request& request) {
  const ConstBufferView in = request.inputs.flat();
  const BufferView out = request.outputs.flat();
  const bool has_equal_inputs = request.inputs.layout() == Layout::equal;
  const bool has_equal_outputs = request.outputs.layout() == Layout::equal;
  switch (request.type) {
    case OpType::all_reduce:
      return is_in_place(request) ? group.all_reduce_async(out, request.op)
                                  : group.all_reduce_async(in, out, request.op);
    case OpType::broadcast:
      return group.broadcast_async(out, request.peer);
    case OpType::reduce:
      return group.reduce_async(in, out, request.peer, request.op);
    case OpType::gather:
      return has_equal_outputs ? group.gather_async(in, out, request.peer) : Work();
    case OpType::scatter:
      return has_equal_inputs ? group.scatter_async(in, out, request.peer) : Work();
    case OpType::all_gather:
      return has_equal_outputs ? group.all_gather_async(in, out) : Work();
    case OpType::reduce_scatter:
      return has_equal_inputs ? group.reduce_scatter_async(in, out, request.op) : Work();
    case OpType::scan:
      return is_in_place(request) ? group.scan_async(out, request.op)
                                  : group.scan_async(in, out, request.op);
    case OpType::exscan:
      return is_in_place(request) ? group.exscan_async(out, request.op)
                                  : group.exscan_async(in, out, request.op);
    case OpType::all_to_all:
      return has_equal_inputs ? group.all_to_all_async(in, out) : Work();
    case OpType::barrier:
      return group.barrier_async();
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      break;
  }
  return {};
}

}  // namespace hymn::test
