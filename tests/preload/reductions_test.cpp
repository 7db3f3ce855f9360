// Reductions: every predefined type and operation, and operations of the program, beside MPI's own.
#include <algorithm>
#include <complex>
#include <string_view>

#include "tests/preload/carried.hpp"

namespace preload_test {
namespace {

struct Case {
  MPI_Datatype type;
  std::vector<MPI_Op> ops;
  const char* name;
};

std::vector<Case> cases() {
  const std::vector<MPI_Op> order = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD};
  const std::vector<MPI_Op> bits = {MPI_BAND, MPI_BOR, MPI_BXOR};
  const std::vector<MPI_Op> logic = {MPI_LAND, MPI_LOR, MPI_LXOR};
  const std::vector<MPI_Op> sums = {MPI_SUM, MPI_PROD};
  const std::vector<MPI_Op> places = {MPI_MINLOC, MPI_MAXLOC};
  std::vector<MPI_Op> all = order;
  all.insert(all.end(), bits.begin(), bits.end());
  std::vector<MPI_Op> fortran = all;
  all.insert(all.end(), logic.begin(), logic.end());
  return {{MPI_INT, all, "INT"},
          {MPI_SHORT, all, "SHORT"},
          {MPI_LONG, all, "LONG"},
          {MPI_UNSIGNED, all, "UNSIGNED"},
          {MPI_UINT64_T, all, "UINT64_T"},
          {MPI_SIGNED_CHAR, {MPI_MAX, MPI_BOR, MPI_LAND}, "SIGNED_CHAR"},
          {MPI_INTEGER, fortran, "INTEGER"},
          {MPI_FLOAT, order, "FLOAT"},
          {MPI_DOUBLE, order, "DOUBLE"},
          {MPI_LONG_DOUBLE, order, "LONG_DOUBLE"},
          {MPI_DOUBLE_PRECISION, order, "DOUBLE_PRECISION"},
          {MPI_C_FLOAT_COMPLEX, sums, "C_FLOAT_COMPLEX"},
          {MPI_C_DOUBLE_COMPLEX, sums, "C_DOUBLE_COMPLEX"},
          {MPI_DOUBLE_COMPLEX, sums, "DOUBLE_COMPLEX"},
          {MPI_C_BOOL, logic, "C_BOOL"},
          {MPI_LOGICAL, logic, "LOGICAL"},
          {MPI_BYTE, bits, "BYTE"},
          {MPI_2INT, places, "2INT"},
          {MPI_DOUBLE_INT, places, "DOUBLE_INT"},
          {MPI_LONG_INT, places, "LONG_INT"},
          {MPI_SHORT_INT, places, "SHORT_INT"},
          {MPI_LONG_DOUBLE_INT, places, "LONG_DOUBLE_INT"},
          {MPI_2DOUBLE_PRECISION, places, "2DOUBLE_PRECISION"}};
}

template <class T>
void store(Bytes& bytes, const std::vector<T>& values) {
  std::memcpy(bytes.data(), values.data(), std::min(bytes.size(), values.size() * sizeof(T)));
}

/// Input of `count` elements, with gaps that nothing may change.
Bytes input(const Case& one, std::size_t count, int rank) {
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  MPI_Type_get_extent(one.type, &low, &extent);
  Bytes bytes(count * static_cast<std::size_t>(extent), std::byte{0});
  const std::string name = one.name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("LONG_DOUBLE"))
    store(bytes, numbers<long double>(bytes.size() / sizeof(long double), rank));
  else if (has("FLOAT"))
    store(bytes, numbers<float>(bytes.size() / sizeof(float), rank));
  else if (has("DOUBLE"))
    store(bytes, numbers<double>(bytes.size() / sizeof(double), rank));
  else if (has("C_BOOL"))
    store(bytes, numbers<std::uint8_t>(bytes.size(), rank, 2));
  else if (has("LOGICAL"))
    store(bytes, numbers<int>(bytes.size() / sizeof(int), rank, 2));
  else if (has("LONG") || has("64"))
    store(bytes, numbers<long>(bytes.size() / sizeof(long), rank));
  else if (has("SHORT"))
    store(bytes, numbers<short>(bytes.size() / sizeof(short), rank));
  else if (has("CHAR") || has("BYTE"))
    store(bytes, numbers<std::int8_t>(bytes.size(), rank));
  else
    store(bytes, numbers<int>(bytes.size() / sizeof(int), rank));
  // The second of a pair, which the first of these is not always the number of.
  if (name.ends_with("_INT"))
    for (std::size_t i = 0; i < count; ++i) {
      const int place = static_cast<int>(i) + rank;
      std::memcpy(bytes.data() + i * static_cast<std::size_t>(extent) +
                      (has("LONG_DOUBLE") ? 16
                       : has("SHORT")     ? 4
                                          : 8),
                  &place, sizeof place);
    }
  return bytes;
}

/// Six bytes of a long double are none of its value, and MPI may leave anything there.
void forget_padding(const Case& one, Bytes& bytes) {
  if (std::string_view(one.name).find("LONG_DOUBLE") == std::string_view::npos) return;
  constexpr std::size_t whole = sizeof(long double);
  const bool is_pair = std::string_view(one.name).ends_with("_INT");
  for (std::size_t at = 0; at < bytes.size(); at += is_pair ? 2 * whole : whole)
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at + 10), whole - 10, std::byte{0});
}

void check_all_reduce(const Case& one, MPI_Op op, std::size_t elements) {
  const int rank = rank_in(MPI_COMM_WORLD);
  const int count = static_cast<int>(elements);
  const Bytes in = input(one, elements, rank);
  Bytes out(in.size(), std::byte{42});
  Bytes expected = out;
  expect_carried("MPI_Allreduce", MPI_COMM_WORLD, [&] {
    EXPECT_EQ(MPI_Allreduce(in.data(), out.data(), count, one.type, op, MPI_COMM_WORLD),
              MPI_SUCCESS);
  });
  by_mpi([&](MPI_Request* request) {
    MPI_Iallreduce(in.data(), expected.data(), count, one.type, op, MPI_COMM_WORLD, request);
  });
  forget_padding(one, out);
  forget_padding(one, expected);
  EXPECT_EQ(out, expected) << one.name << " " << count;
  Bytes in_place = in;
  MPI_Allreduce(MPI_IN_PLACE, in_place.data(), count, one.type, op, MPI_COMM_WORLD);
  expected = in;
  by_mpi([&](MPI_Request* request) {
    MPI_Iallreduce(MPI_IN_PLACE, expected.data(), count, one.type, op, MPI_COMM_WORLD, request);
  });
  forget_padding(one, in_place);
  forget_padding(one, expected);
  EXPECT_EQ(in_place, expected) << one.name << " in place";
}

TEST(Reductions, EveryTypeAndOperation) {
  warm_up(MPI_COMM_WORLD);
  for (const Case& one : cases())
    for (const MPI_Op op : one.ops)
      for (const std::size_t count : {1, 5, 3000}) check_all_reduce(one, op, count);
}

TEST(Reductions, ReduceToEveryRoot) {
  warm_up(MPI_COMM_WORLD);
  const int rank = rank_in(MPI_COMM_WORLD);
  for (int root = 0; root < size_of(MPI_COMM_WORLD); ++root)
    for (const bool in_place : {false, true}) {
      const auto in = numbers<double>(100, rank);
      std::vector<double> out = in;
      std::vector<double> expected = in;
      const void* const given = in_place && rank == root ? MPI_IN_PLACE : in.data();
      expect_carried("MPI_Reduce", MPI_COMM_WORLD, [&] {
        MPI_Reduce(given, out.data(), 100, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
      });
      by_mpi([&](MPI_Request* request) {
        MPI_Ireduce(given, expected.data(), 100, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD,
                    request);
      });
      EXPECT_EQ(out, expected);
    }
}

TEST(Reductions, Prefixes) {
  warm_up(MPI_COMM_WORLD);
  const int rank = rank_in(MPI_COMM_WORLD);
  const auto in = numbers<int>(33, rank);
  std::vector<int> out(33, -1);
  std::vector<int> expected(33, -1);
  expect_carried("MPI_Scan", MPI_COMM_WORLD,
                 [&] { MPI_Scan(in.data(), out.data(), 33, MPI_INT, MPI_SUM, MPI_COMM_WORLD); });
  by_mpi([&](MPI_Request* request) {
    MPI_Iscan(in.data(), expected.data(), 33, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
  });
  EXPECT_EQ(out, expected);
  std::ranges::fill(out, -1);
  std::ranges::fill(expected, -1);
  expect_carried("MPI_Exscan", MPI_COMM_WORLD,
                 [&] { MPI_Exscan(in.data(), out.data(), 33, MPI_INT, MPI_SUM, MPI_COMM_WORLD); });
  by_mpi([&](MPI_Request* request) {
    MPI_Iexscan(in.data(), expected.data(), 33, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
  });
  EXPECT_EQ(out, expected);
}

TEST(Reductions, TheFirstRankOfAnExscanNeedsNoBuffer) {
  warm_up(MPI_COMM_WORLD);
  const int rank = rank_in(MPI_COMM_WORLD);
  const std::vector<int> in(33, rank + 1);
  std::vector<int> out(33, 0);
  expect_carried("MPI_Exscan", MPI_COMM_WORLD, [&] {
    MPI_Exscan(in.data(), rank == 0 ? nullptr : out.data(), 33, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  });
  EXPECT_EQ(out.back(), rank * (rank + 1) / 2);
  // In place it is the input, and stays.
  out = in;
  MPI_Exscan(MPI_IN_PLACE, out.data(), 33, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(out.back(), rank == 0 ? 1 : rank * (rank + 1) / 2);
}

/// a op b: of 2x2 matrices, which do not commute.
void multiply(void* lower, void* higher, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const long*>(lower);
  auto* b = static_cast<long*>(higher);
  for (int i = 0; i < *count; ++i, a += 4, b += 4) {
    const long made[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                          a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
    std::copy(made, made + 4, b);
  }
}

struct Matrices {
  Matrices() {
    MPI_Type_contiguous(4, MPI_LONG, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(multiply, 0, &op);
  }
  ~Matrices() {
    MPI_Op_free(&op);
    MPI_Type_free(&type);
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
};

TEST(Reductions, OperationsOfTheProgramKeepTheOrder) {
  warm_up(MPI_COMM_WORLD);
  const Matrices matrices;
  const int rank = rank_in(MPI_COMM_WORLD);
  for (const int count : {1, 3, 500}) {
    const auto in = numbers<long>(static_cast<std::size_t>(count) * 4, rank);
    std::vector<long> out(in.size());
    std::vector<long> expected(in.size());
    expect_carried("MPI_Allreduce", MPI_COMM_WORLD, [&] {
      MPI_Allreduce(in.data(), out.data(), count, matrices.type, matrices.op, MPI_COMM_WORLD);
    });
    by_mpi([&](MPI_Request* request) {
      MPI_Iallreduce(in.data(), expected.data(), count, matrices.type, matrices.op, MPI_COMM_WORLD,
                     request);
    });
    EXPECT_EQ(out, expected) << count;
    MPI_Scan(in.data(), out.data(), count, matrices.type, matrices.op, MPI_COMM_WORLD);
    by_mpi([&](MPI_Request* request) {
      MPI_Iscan(in.data(), expected.data(), count, matrices.type, matrices.op, MPI_COMM_WORLD,
                request);
    });
    EXPECT_EQ(out, expected) << count;
  }
}

/// Adds ints of a type that has gaps, which it must leave alone: it is called with that type.
void add_with_gaps(void* lower, void* higher, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const int*>(lower);
  auto* b = static_cast<int*>(higher);
  for (int i = 0; i < *count; ++i) {
    b[i * 3] += a[i * 3];
    b[i * 3 + 2] += a[i * 3 + 2];
  }
}

TEST(Reductions, OperationsOfTheProgramOnTypesWithGaps) {
  warm_up(MPI_COMM_WORLD);
  MPI_Datatype gaps = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);  // its extent is that of three ints
  MPI_Type_commit(&gaps);
  MPI_Op add = MPI_OP_NULL;
  MPI_Op_create(add_with_gaps, 1, &add);
  const auto in = numbers<int>(3 * 20, rank_in(MPI_COMM_WORLD));
  std::vector<int> out(in.size(), -7);
  std::vector<int> expected(in.size(), -7);
  expect_carried("MPI_Allreduce", MPI_COMM_WORLD,
                 [&] { MPI_Allreduce(in.data(), out.data(), 20, gaps, add, MPI_COMM_WORLD); });
  by_mpi([&](MPI_Request* request) {
    MPI_Iallreduce(in.data(), expected.data(), 20, gaps, add, MPI_COMM_WORLD, request);
  });
  EXPECT_EQ(out, expected);
  MPI_Op_free(&add);
  MPI_Type_free(&gaps);
}

TEST(Reductions, Scattered) {
  warm_up(MPI_COMM_WORLD);
  const int rank = rank_in(MPI_COMM_WORLD);
  const int size = size_of(MPI_COMM_WORLD);
  std::vector<int> counts;
  for (int i = 0; i < size; ++i) counts.push_back(i % 3 * 4);
  int total = 0;
  for (const int count : counts) total += count;
  const auto in = numbers<float>(static_cast<std::size_t>(std::max(total, size * 6)), rank);
  std::vector<float> out(20, -1);
  std::vector<float> expected(20, -1);
  expect_carried("MPI_Reduce_scatter", MPI_COMM_WORLD, [&] {
    MPI_Reduce_scatter(in.data(), out.data(), counts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  by_mpi([&](MPI_Request* request) {
    MPI_Ireduce_scatter(in.data(), expected.data(), counts.data(), MPI_FLOAT, MPI_SUM,
                        MPI_COMM_WORLD, request);
  });
  EXPECT_EQ(out, expected);
  expect_carried("MPI_Reduce_scatter_block", MPI_COMM_WORLD, [&] {
    MPI_Reduce_scatter_block(in.data(), out.data(), 6, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  });
  by_mpi([&](MPI_Request* request) {
    MPI_Ireduce_scatter_block(in.data(), expected.data(), 6, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD,
                              request);
  });
  EXPECT_EQ(out, expected);
  std::vector<float> in_place = in;
  MPI_Reduce_scatter_block(MPI_IN_PLACE, in_place.data(), 6, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_TRUE(std::equal(expected.begin(), expected.begin() + 6, in_place.begin()));
}

TEST(Reductions, WhatMpiRefusesIsLeftToIt) {
  warm_up(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  double in = 1;
  double out = 0;
  expect_left("MPI_Allreduce", [&] {
    EXPECT_NE(MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_SUCCESS);
  });
#ifndef MPICH_VERSION  // which ends the job (4.0.2)
  expect_left("MPI_Allreduce", [&] {
    EXPECT_NE(MPI_Allreduce(&in, &out, -1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  });
#endif
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

}  // namespace
}  // namespace preload_test
