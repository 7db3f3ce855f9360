// Calls of ProcessGroup, as a captured program has them, made again.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "hymn/array.hpp"
#include "hymn/program.hpp"
#include "hymn/work.hpp"

namespace hymn::functional::detail {

class ReplayedCalls {
 public:
  /// `values`: of the program, where the arrays are; results come there, too.
  ReplayedCalls(const Program& program, std::vector<Array>& values)
      : program_(program), values_(values) {}
  ReplayedCalls(const ReplayedCalls&) = delete;
  ReplayedCalls& operator=(const ReplayedCalls&) = delete;
  /// Calls that have failed, or not ended, keep their memory.
  ~ReplayedCalls();

  /// Starts the call that begins at this node; nothing at nodes that are part of one before.
  void start(std::size_t node, ProcessGroup group);
  void wait(std::span<const std::size_t> nodes);
  void wait_for_all();

 private:
  struct Buffers {
    std::vector<ConstBufferView> inputs;
    std::vector<BufferView> outputs;
    std::vector<Array> kept;
  };
  struct Started {
    Work work;
    std::vector<std::unique_ptr<Buffers>> buffers;
  };
  Request request_of(const ProgramNode& node, Buffers& buffers);

  const Program& program_;
  std::vector<Array>& values_;
  std::vector<std::shared_ptr<Started>> started_{};
  std::map<std::size_t, std::shared_ptr<Started>> of_node_{};
};

}  // namespace hymn::functional::detail
