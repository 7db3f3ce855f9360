// The smallest user of hymn::functional: a sum, as it was captured.
#include <cstdio>
#include <hymn/capture.hpp>
#include <hymn/functional.hpp>
#include <hymn/hymn.hpp>
#include <vector>

int main() {
  hymn::World world;
  const auto mine = hymn::Array::full<float>({2}, static_cast<float>(world.rank() + 1));
  const hymn::Captured captured =
      hymn::capture([&] { (void)hymn::functional::all_reduce(mine, "sum", world.group()); });
  const hymn::Array sum = hymn::replay(captured, world, std::vector{mine}).front();
  std::printf("rank %d of %d: sum %g\n", world.rank(), world.size(), sum.at<float>(1));
}
