// A call between two workers, by the installed library.
#include <hymn/hymn.hpp>
#include <hymn/rpc.hpp>

#include <iostream>
#include <string>

namespace {
const auto add = hymn::rpc::register_function("add", [](int a, int b) { return a + b; });
}  // namespace

int main() {
  hymn::World world;
  hymn::rpc::Agent agent(world, "worker" + std::to_string(world.rank()));
  const int next = (world.rank() + 1) % world.size();
  const int sum = agent.rpc_sync(next, add, 1, 2);
  agent.shutdown();
  std::cout << "rank " << world.rank() << " of " << world.size() << ": sum " << sum << "\n";
  return sum == 3 ? 0 : 1;
}
