// hymn in the comparison, through its C++ interface.
#include <exception>
#include <string>

#include "bench/compare/driver.h"
#include "hymn/hymn.hpp"

namespace hymn {
namespace {

ProcessGroup& group(const Call* call) { return *static_cast<ProcessGroup*>(call->library); }

std::size_t all(const Call* call) { return call->count * static_cast<std::size_t>(call->ranks); }

ConstBufferView in(const Call* call, std::size_t count) {
  return {call->in, count, DataType::float32};
}

BufferView out(const Call* call, std::size_t count) {
  return {call->out, count, DataType::float32};
}

void all_reduce(const Call* call) {
  if (call->in == call->out) {
    group(call).all_reduce(out(call, call->count));
  } else {
    group(call).all_reduce(in(call, call->count), out(call, call->count));
  }
}

void broadcast(const Call* call) { group(call).broadcast(out(call, call->count), call->root); }

void reduce(const Call* call) {
  group(call).reduce(in(call, call->count), out(call, call->count), call->root);
}

void gather(const Call* call) {
  group(call).gather(in(call, call->count), out(call, all(call)), call->root);
}

void scatter(const Call* call) {
  group(call).scatter(in(call, all(call)), out(call, call->count), call->root);
}

void all_gather(const Call* call) {
  group(call).all_gather(in(call, call->count), out(call, all(call)));
}

void reduce_scatter(const Call* call) {
  group(call).reduce_scatter(in(call, all(call)), out(call, call->count));
}

void all_to_all(const Call* call) {
  group(call).all_to_all(in(call, all(call)), out(call, all(call)));
}

void send_recv(const Call* call) {
  const int partner = call->rank ^ 1;
  if (partner >= call->ranks) return;
  if (call->rank % 2 == 0) group(call).send(in(call, call->count), partner);
  group(call).recv(out(call, call->count), partner);
  if (call->rank % 2 == 1) group(call).send(in(call, call->count), partner);
}

void barrier(const Call* call) { group(call).barrier(); }

int run(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "compare.py starts this program\n");
    return 2;
  }
  bind_process(argv[3]);
  World world;
  const std::string name = std::string("hymn ") + version();
  const Library library = {&world.group(),
                           name.c_str(),
                           {all_reduce, broadcast, reduce, gather, scatter, all_gather,
                            reduce_scatter, all_to_all, send_recv, barrier}};
  drive(argv, world.rank(), world.size(), &library);
  world.destroy();
  return 0;
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) {
  try {
    return hymn::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
