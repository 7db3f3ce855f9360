// What the settings say of who carries calls, and how failures reach a program that handles its
// errors.
//   settings carried|mpi_bits|watched|off|errors
#include <algorithm>
#include <string>

#include "tests/preload/carried.hpp"

namespace preload_test {
namespace {

std::string wanted;  // NOLINT: of main()

TEST(Settings, WhoCarries) {
  if (wanted == "errors") return;
  ASSERT_NE(::dlsym(RTLD_DEFAULT, "hymnPreloadCarried"), nullptr) << "the library is not there";
  // Off it counts nothing, not even that nothing was carried.
  EXPECT_EQ(carried("MPI_Allreduce") >= 0, wanted != "off");
  for (int i = 0; i < 3; ++i) MPI_Barrier(MPI_COMM_WORLD);
  const std::vector<double> in(1000, 0.1);
  std::vector<double> out(1000);
  const long long before = std::max(carried("MPI_Allreduce"), 0LL);
  MPI_Allreduce(in.data(), out.data(), 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const long long sums = std::max(carried("MPI_Allreduce"), 0LL) - before;
  MPI_Allreduce(in.data(), out.data(), 1000, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const long long all = std::max(carried("MPI_Allreduce"), 0LL) - before;
  EXPECT_EQ(sums, wanted == "carried" ? 1 : 0);
  EXPECT_EQ(all, wanted == "carried" ? 2 : wanted == "mpi_bits" ? 1 : 0);
}

// Whoever has a handler of its own hears hymn's words, and goes on with MPI.
TEST(Settings, ErrorsReachTheProgram) {
  if (wanted != "errors") return;
  warm_up(MPI_COMM_WORLD);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  warm_up(comm);
  int value = 1;
  int sum = 0;
  const int code = rank_in(comm) == 0 ? MPI_Barrier(comm)
                                      : MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  ASSERT_NE(code, MPI_SUCCESS);
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  EXPECT_EQ(std::string(text).substr(0, 6), "hymn: ") << text;
  int of_class = 0;
  MPI_Error_class(code, &of_class);
  EXPECT_NE(of_class, MPI_SUCCESS);
  EXPECT_EQ(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
  EXPECT_EQ(sum, size_of(comm));
  MPI_Comm_free(&comm);
  // Nor do others that shared its group suffer; new ones get a new one.
  EXPECT_EQ(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  EXPECT_EQ(sum, size_of(MPI_COMM_WORLD));
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  warm_up(comm);
  expect_carried("MPI_Allreduce", comm, [&] {
    EXPECT_EQ(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
  });
  EXPECT_EQ(sum, size_of(comm));
  MPI_Comm_free(&comm);
}

}  // namespace
}  // namespace preload_test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  preload_test::wanted = argc > 1 ? argv[1] : "carried";
  MPI_Init(&argc, &argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
