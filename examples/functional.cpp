// Functional collectives: arrays out of place, a captured program, and what is wrong with one.
//   mpirun -n 4 functional
#include <cstdio>
#include <hymn/capture.hpp>
#include <hymn/functional.hpp>
#include <hymn/hymn.hpp>

namespace fc = hymn::functional;

namespace {

/// The sums of rows that all ranks have a part of, side by side on all of them.
hymn::Array row_sums(const hymn::Array& rows, const fc::Where& where) {
  const hymn::Array mine = fc::reduce_scatter_tensor(rows, "sum", 0, where);
  return fc::all_gather_tensor(mine, 0, where);
}

}  // namespace

int main() {
  hymn::World world;
  const hymn::Array rows =
      hymn::Array::full<float>({2 * world.size(), 3}, static_cast<float>(world.rank() + 1));

  const hymn::Array sums = row_sums(rows, world.group());  // in flight
  const float each = sums.at<float>(0, 0);                 // waits

  // The same by shapes alone: nothing is sent.
  const hymn::Array meta = hymn::Array::meta(rows.spec());
  const hymn::Captured captured = hymn::capture([&] { (void)row_sums(meta, world.group()); });
  const hymn::Array again = hymn::replay(captured, world, std::span(&rows, 1)).front();

  if (world.rank() == 0)
    std::printf("%g and %g, by %zu collectives and %zu wait\n%s", each, again.at<float>(0, 0),
                captured.program.count("collective"), captured.program.count("wait_tensor"),
                captured.program.to_dot().c_str());
  else
    again.wait();
}
