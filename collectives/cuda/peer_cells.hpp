// Which reductions there are kernels for between peers: from this table the kernels are compiled,
// and from it the rules and the planner know what they take. What is not in it is left to other
// paths.
#pragma once

// HYMN_PEER_CELLS(CELL, ...) is CELL(type, Type, kind, Kind, ...) for each: as DataType and
// ReduceKind name them, and as reductions.hpp does. For each of them every method has a kernel for
// every kind of GPU.
#define HYMN_PEER_CELLS(CELL, ...)                    \
  CELL(float32, Float32, sum, Sum, __VA_ARGS__)       \
  CELL(float32, Float32, avg, Average, __VA_ARGS__)   \
  CELL(float32, Float32, max, Max, __VA_ARGS__)       \
  CELL(float32, Float32, min, Min, __VA_ARGS__)       \
  CELL(float16, Float16, sum, Sum, __VA_ARGS__)       \
  CELL(float16, Float16, avg, Average, __VA_ARGS__)   \
  CELL(float16, Float16, max, Max, __VA_ARGS__)       \
  CELL(float16, Float16, min, Min, __VA_ARGS__)       \
  CELL(bfloat16, Bfloat16, sum, Sum, __VA_ARGS__)     \
  CELL(bfloat16, Bfloat16, avg, Average, __VA_ARGS__) \
  CELL(bfloat16, Bfloat16, max, Max, __VA_ARGS__)     \
  CELL(bfloat16, Bfloat16, min, Min, __VA_ARGS__)     \
  CELL(int32, Int32, sum, Sum, __VA_ARGS__)           \
  CELL(int64, Int64, sum, Sum, __VA_ARGS__)           \
  CELL(float64, Float64, sum, Sum, __VA_ARGS__)
