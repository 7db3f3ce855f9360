// The smallest user of hymn::training: averages a gradient of all ranks.
#include <cstdio>
#include <hymn/gradient_hooks.hpp>
#include <hymn/gradient_reducer.hpp>
#include <hymn/hymn.hpp>
#include <vector>

int main() {
  hymn::World world;
  std::vector<float> values(4), gradient(4, static_cast<float>(world.rank() + 1));
  hymn::training::GradientReducer reducer(
      world.group(), {{.name = "weight", .data = values, .gradient = gradient}},
      {.hook = hymn::training::bf16_compress()});
  reducer.ready(0);
  reducer.finish();
  const float twice = gradient.front() + gradient.back();
  std::printf("rank %d of %d: sum %g\n", world.rank(), world.size(), twice);
}
